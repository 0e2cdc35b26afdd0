// SPDX-License-Identifier: Apache-2.0

package conf

// option is one line of the table that the parser, --help, the mode check and the manual's test read.
type option struct {
	long  string
	short byte   // 0: none
	arg   string // name of the argument, "": takes none
	modes Mode
	help  string // lines after the first are indented
	set   func(o *Options, v string) error
}

// flag makes a setter of an option without argument.
func flag(f func(o *Options)) func(*Options, string) error {
	return func(o *Options, _ string) error {
		f(o)
		return nil
	}
}

// table is every option that exists, in the order of the help text. It is a function because --help refers to it.
func table() []option {
	t := make([]option, 0, 64)
	t = append(t, generalOptions()...)
	t = append(t, addressOptions()...)
	t = append(t, nameOptions()...)
	t = append(t, portOptions()...)
	return append(t, pastaOptions()...)
}

func generalOptions() []option {
	return []option{
		{"debug", 'd', "", modeAll, "Be verbose", flag(func(o *Options) { o.Debug, o.Quiet = true, false })},
		{"trace", 0, "", modeAll, "Be extra verbose, implies --debug", flag(func(o *Options) { o.Trace, o.Debug, o.Quiet = true, true, false })},
		{"quiet", 'q', "", modeAll, "Print only warnings and errors", flag(func(o *Options) { o.Quiet, o.Debug, o.Trace = true, false, false })},
		{"foreground", 'f', "", modeAll, "Stay in the foreground\ndefault: go to the background when ready, unless a command or shell is run", flag(func(o *Options) { o.Foreground = true })},
		{"stderr", 'e', "", modeAll, "Accepted without effect (deprecated)", flag(func(o *Options) {
			o.Warnings = append(o.Warnings, "Option --stderr has no effect and will go away")
		})},
		{"runas", 0, "UID|UID:GID", modeAll, "Run as this user and group, numbers or names\ndefault: user \"nobody\" where started as root", setRunAs},
		{"help", 'h', "", modeAll, "Show this help and exit", func(o *Options, _ string) error { return &Exit{Stdout: usage(o.Mode)} }},
		{"version", 0, "", modeAll, "Show the version and exit", func(o *Options, _ string) error { return &Exit{Stdout: versionText(o)} }},
		{"pcap", 'p', "FILE", modeAll, "Capture the guest's traffic to a pcap file", func(o *Options, v string) (err error) {
			o.Pcap, err = path(v, "capture file")
			return err
		}},
		{"pid", 'P', "FILE", modeAll, "Write the process' number to a file when ready", func(o *Options, v string) (err error) {
			o.PidFile, err = path(v, "PID file")
			return err
		}},
		{"ipv4-only", '4', "", modeAll, "IPv4 only", flag(func(o *Options) { o.Only = 4 })},
		{"ipv6-only", '6', "", modeAll, "IPv6 only", flag(func(o *Options) { o.Only = 6 })},
		{"no-tcp", 0, "", modeAll, "No TCP", flag(func(o *Options) { o.NoTCP = true })},
		{"no-udp", 0, "", modeAll, "No UDP", flag(func(o *Options) { o.NoUDP = true })},
		{"no-icmp", 0, "", modeAll, "No ICMP and ICMPv6, implies --no-ndp", flag(func(o *Options) { o.NoICMP = true })},
		{"no-dhcp", 0, "", modeAll, "No DHCP server", flag(func(o *Options) { o.NoDHCP = true })},
		{"no-dhcpv6", 0, "", modeAll, "No DHCPv6 server", flag(func(o *Options) { o.NoDHCPv6 = true })},
		{"no-ndp", 0, "", modeAll, "No neighbour discovery", flag(func(o *Options) { o.NoNDP = true })},
		{"no-ra", 0, "", modeAll, "No router advertisements", flag(func(o *Options) { o.NoRA = true })},
		{"freebind", 0, "", modeAll, "Listen on addresses that no interface has", flag(func(o *Options) { o.FreeBind = true })},
	}
}

func addressOptions() []option {
	return []option{
		{"mtu", 'm', "MTU", modeAll, "MTU for the guest, 0 leaves it alone\ndefault: 65520", setMTU},
		{"address", 'a', "ADDR[/LEN]", modeAll, "Guest's IPv4 or IPv6 address, once per family\ndefault: the host's", setAddress},
		{"netmask", 'n', "MASK", modeAll, "IPv4 netmask, dotted or as a number of bits\ndefault: the one of the host's address", func(o *Options, v string) (err error) {
			o.Netmask, err = netmask(v)
			return err
		}},
		{"mac-addr", 'M', "MAC", modeAll, "Our own MAC address\ndefault: 9a:55:9a:55:9a:55", func(o *Options, v string) error {
			m, err := mac(v)
			if err == nil && m.IsZero() {
				err = errorf("MAC address is zero: %s", v)
			}
			o.MAC = m
			return err
		}},
		{"gateway", 'g', "ADDR", modeAll, "Guest's gateway, once per family\ndefault: the host's", pair("gateway address", noUnspecified|noLoopback|noBroadcast|noMulticast, func(o *Options) *Pair { return &o.Gateway })},
		{"interface", 'i', "NAME", modeAll, "Interface whose addresses and routes are used\ndefault: the one with the default route", func(o *Options, v string) (err error) {
			o.Interface, err = ifName(v)
			return err
		}},
		{"outbound", 'o', "ADDR", modeAll, "Source address on the host side, once per family\ndefault: the kernel's choice", pair("outbound address", noUnspecified|noLoopback6|noBroadcast|noMulticast|noEmbedded, func(o *Options) *Pair { return &o.Outbound })},
		{"outbound-if4", 0, "NAME", modeAll, "Interface for IPv4 on the host side\ndefault: the kernel's choice", func(o *Options, v string) (err error) {
			o.OutboundIf4, err = ifName(v)
			return err
		}},
		{"outbound-if6", 0, "NAME", modeAll, "Interface for IPv6 on the host side\ndefault: the kernel's choice", func(o *Options, v string) (err error) {
			o.OutboundIf6, err = ifName(v)
			return err
		}},
		{"map-host-loopback", 0, "ADDR", modeAll, "Address that leads to the host's loopback, once per\nfamily, or \"none\"\ndefault: the gateway's", setMapLoop},
		{"no-map-gw", 0, "", modeAll, "The gateway's address does not lead to the host's\nloopback", flag(func(o *Options) { o.NoMapGW = true })},
		{"map-guest-addr", 0, "ADDR", modeAll, "Address that leads to the host's own address, once per\nfamily, or \"none\"\ndefault: none", setMapGuest},
	}
}

func nameOptions() []option {
	return []option{
		{"dns", 'D', "ADDR", modeAll, "Resolver for the guest, up to three per family, or\n\"none\"\ndefault: /etc/resolv.conf", setDNS},
		{"dns-forward", 0, "ADDR", modeAll, "Address whose DNS traffic goes to the host's resolver,\nonce per family", pair("DNS forwarding address", noUnspecified|noLoopback|noBroadcast, func(o *Options) *Pair { return &o.DNSForward })},
		{"dns-host", 0, "ADDR", modeAll, "Resolver that --dns-forward leads to, once per family\ndefault: the first of /etc/resolv.conf", pair("DNS host address", noUnspecified|noBroadcast, func(o *Options) *Pair { return &o.DNSHost })},
		{"search", 'S', "LIST", modeAll, "Search domains, blank-separated, six in all, or \"none\"\ndefault: /etc/resolv.conf", setSearch},
		{"hostname", 'H', "NAME", modeAll, "Guest's host name", func(o *Options, v string) (err error) {
			o.Hostname, err = hostName(v, "Host name")
			return err
		}},
		{"fqdn", 0, "NAME", modeAll, "Guest's full name, for DHCP and DHCPv6", func(o *Options, v string) (err error) {
			o.FQDN, err = hostName(v, "Full host name")
			return err
		}},
	}
}

func portOptions() []option {
	ports := func(c byte) func(*Options, string) error {
		return func(o *Options, v string) error {
			o.Ports = append(o.Ports, PortOption{c, v})
			return nil
		}
	}
	return []option{
		{"tcp-ports", 't', "SPEC", modeAll, "TCP ports from the host to the guest, repeatable\n" + portHelp, ports('t')},
		{"udp-ports", 'u', "SPEC", modeAll, "UDP ports from the host to the guest, repeatable\ndefault: auto (pasta), none (passt)", ports('u')},
		{"tcp-ns", 'T', "SPEC", ModePasta, "TCP ports from the namespace to the host, repeatable\ndefault: auto", ports('T')},
		{"udp-ns", 'U', "SPEC", ModePasta, "UDP ports from the namespace to the host, repeatable\ndefault: auto", ports('U')},
	}
}

const portHelp = `SPEC is "none", or
  [ADDR|*][%IFNAME]/ (optional) and a list, with commas, of
  all[:ADDR]    all ports but the ephemeral ones
  auto          only while in use on the target side (pasta)
  ~A[-B]        not these
  A[-B][:[ADDR/]C[-D]]  these, to others and another address
for example 22, 22:23, 22-80:32-90, 5-25,~10-20, 192.0.2.1/5
default: auto (pasta), none (passt)`

func pastaOptions() []option {
	return []option{
		{"ns-ifname", 'I', "NAME", ModePasta, "Interface name in the namespace\ndefault: the host's", func(o *Options, v string) (err error) {
			o.NsIfName, err = ifName(v)
			return err
		}},
		{"userns", 0, "PATH", ModePasta, "User namespace to join", func(o *Options, v string) (err error) {
			o.NetnsOnly = false
			o.UserNS, err = path(v, "user namespace")
			return err
		}},
		{"netns", 0, "PATH|NAME", ModePasta, "Network namespace to join", setNetNS},
		{"netns-only", 0, "", ModePasta, "Join or make no user namespace", flag(func(o *Options) { o.NetnsOnly, o.UserNS = true, "" })},
		{"no-netns-quit", 0, "", ModePasta, "Go on when the namespace is deleted", flag(func(o *Options) { o.NoNetnsQuit = true })},
		{"config-net", 0, "", ModePasta, "Configure addresses and routes in the namespace", flag(func(o *Options) { o.ConfigNet = true })},
		{"ns-mac-addr", 0, "MAC", ModePasta, "MAC address of the namespace's interface", func(o *Options, v string) (err error) {
			o.NsMAC, err = mac(v)
			return err
		}},
		{"dhcp-dns", 0, "", ModePasta, "Announce resolvers by DHCP, DHCPv6 and NDP", flag(func(o *Options) { o.DHCPDNS = true })},
		{"dhcp-search", 0, "", ModePasta, "Announce the search list by DHCP, DHCPv6 and NDP", flag(func(o *Options) { o.DHCPSearch = true })},
		{"host-lo-to-ns-lo", 0, "", ModePasta, "The host's loopback reaches the namespace's loopback", flag(func(o *Options) { o.HostLoToNsLo = true })},
		{"no-splice", 0, "", modeAll, "No short cut for loopback traffic", flag(func(o *Options) { o.NoSplice = true })},
		{"splice-only", 0, "", ModePasta, "Loopback traffic only, no interface in the namespace", flag(func(o *Options) { o.SpliceOnly = true })},
	}
}
