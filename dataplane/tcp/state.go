// SPDX-License-Identifier: Apache-2.0

package tcp

// State of a connection. The two FINs are flags of StateOpen: either direction may end first.
type State uint8

const (
	StateClosed     State = iota // row not in use; also the target of an illegal event
	StateConnecting              // guest's SYN seen, the host's socket connects; nothing sent; sndX not valid yet
	StateSynAckSent              // host's peer accepted, SYN,ACK sent to the guest
	StateSynSent                 // host's connection accepted, SYN sent to the guest; rcvX not valid yet
	StateOpen                    // handshake with the guest complete
	numStates
)

// Event of a connection.
type Event uint8

const (
	EvSyn       Event = iota // SYN of the guest, no flow yet
	EvAccept                 // connection accepted on the host
	EvConnected              // the host's socket is connected
	EvAck                    // the guest completes our SYN,ACK
	EvSynAck                 // the guest answers our SYN
	EvClose                  // reset, both FINs done, given up
	numEvents
)

// next is the transition table. StateClosed stands for an illegal event, except in the column of EvClose.
var next = [numStates][numEvents]State{
	StateClosed:     {EvSyn: StateConnecting, EvAccept: StateSynSent},
	StateConnecting: {EvConnected: StateSynAckSent, EvClose: StateClosed},
	StateSynAckSent: {EvAck: StateOpen, EvClose: StateClosed},
	StateSynSent:    {EvSynAck: StateOpen, EvClose: StateClosed},
	StateOpen:       {EvClose: StateClosed},
}

var stateNames = [numStates]string{"closed", "connecting", "syn-ack sent", "syn sent", "open"}

var eventNames = [numEvents]string{"syn", "accept", "connected", "ack", "syn-ack", "close"}

// String names the state.
func (s State) String() string { return stateNames[s] }

// String names the event.
func (e Event) String() string { return eventNames[e] }

// step takes a transition; handlers only raise events that are legal, so another one is our own fault.
func (c *conn) step(e Event) {
	s := next[c.state][e]
	if s == StateClosed && e != EvClose {
		panic("tcp: " + e.String() + " in state " + c.state.String())
	}
	c.state = s
}
