// SPDX-License-Identifier: Apache-2.0

package fwd

import "passt/dataplane/wire"

// RuleFlags qualify a rule; values as in the control protocol.
type RuleFlags uint8

const (
	RuleDual       RuleFlags = 1 // wildcard of both families in one socket; Addr is zero
	RuleBestEffort RuleFlags = 2 // a port that cannot be bound is skipped
	RuleScan       RuleFlags = 4 // listen only while the port is in use on the target side
)

// Limits of one direction.
const (
	MaxRules     = 255
	MaxListeners = 5 * 65536
)

// Rule forwards the ports First..Last of a listening address to the ports
// To..To+Last-First of the target side. The layout (56 bytes when encoded) is
// that of the control protocol, version 2.
type Rule struct {
	Addr   wire.Addr // listening address; zero with RuleDual, :: alone means IPv6 only
	Target wire.Addr // zero: the guest's own address
	If     IfName    // device to listen on; zero: any
	First  uint16
	Last   uint16
	To     uint16 // target port of First
	Proto  uint8  // ProtoTCP or ProtoUDP
	Flags  RuleFlags
}

// Map gives the target port of a listening port; port must lie in First..Last.
func (r *Rule) Map(port uint16) uint16 { return r.To + (port - r.First) }

// Has tells whether port is one of the rule's listening ports.
func (r *Rule) Has(port uint16) bool { return r.First <= port && port <= r.Last }

// HasTarget tells whether port is one of the rule's target ports.
func (r *Rule) HasTarget(port uint16) bool {
	return port >= r.To && port-r.To <= r.Last-r.First
}
