// SPDX-License-Identifier: Apache-2.0

package wire

// Drop says why a frame or message went no further; 0 means that it did not end here.
type Drop uint8

// Causes, counted by name. Add new ones at the end of their group; names are in dropNames.
const (
	DropNone Drop = iota
	DropShort
	DropVnet
	DropEtherType
	DropFamilyOff
	DropIPVersion
	DropIPLength
	DropIPLoopback
	DropFragment
	DropExtension
	DropProto
	DropTCPHeader
	DropUDPLength
	DropAddress
	DropPort
	DropNoRule
	DropNoFlow
	DropTableFull
	DropNoDescriptor
	DropBrokerBusy
	DropTCPWindow
	DropTCPAck
	DropTCPReset
	DropPendingFull
	DropLinkFull
	DropHostError
	DropTooBig
	DropARP
	DropNDP
	DropICMP
	DropDHCP4
	DropDHCP6
	DropDuplicate
	DropTruncated
	DropNotOurs
	numDrops
)

var dropNames = [numDrops]string{
	DropNone: "none", DropShort: "short frame", DropVnet: "bad virtio-net header", DropEtherType: "unknown ether type",
	DropFamilyOff: "IP version is off", DropIPVersion: "IP version does not fit", DropIPLength: "bad IP length",
	DropIPLoopback: "loopback address on the link", DropFragment: "IP fragment", DropExtension: "bad IPv6 extension header",
	DropProto: "unknown IP protocol", DropTCPHeader: "bad TCP header", DropUDPLength: "bad UDP length",
	DropAddress: "address not usable", DropPort: "port 0", DropNoRule: "not allowed", DropNoFlow: "no such flow",
	DropTableFull: "flow table full", DropNoDescriptor: "out of descriptors", DropBrokerBusy: "broker queue full",
	DropTCPWindow: "TCP segment outside of the window", DropTCPAck: "TCP acknowledgement of unsent data",
	DropTCPReset: "TCP reset outside of the window", DropPendingFull: "pending buffer full", DropLinkFull: "guest link full",
	DropHostError: "host refused", DropTooBig: "too big", DropARP: "ARP not answered", DropNDP: "neighbour discovery not answered",
	DropICMP: "ICMP not forwarded", DropDHCP4: "bad DHCP message", DropDHCP6: "bad DHCPv6 message",
	DropDuplicate: "duplicate", DropTruncated: "datagram truncated", DropNotOurs: "not for us",
}

// String gives the counter's name.
func (d Drop) String() string {
	if d < numDrops {
		return dropNames[d]
	}
	return "?"
}

// Counters counts drops by cause.
type Counters [numDrops]uint64

// Add counts one drop.
func (c *Counters) Add(d Drop) { c[d]++ }
