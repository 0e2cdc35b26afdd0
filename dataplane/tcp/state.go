// SPDX-License-Identifier: Apache-2.0

package tcp

// State of a connection. FINs are flags of StateOpen: both directions end independently.
type State uint8

const (
	StateClosed     State = iota
	StateConnecting       // guest's SYN seen, the host's socket connects
	StateSynAckSent       // the peer accepted, SYN,ACK sent to the guest
	StateSynSent          // peer's connection accepted, SYN sent to the guest
	StateOpen             // handshake with the guest complete
	numStates
)

// Event of a connection.
type Event uint8

const (
	EvSYN       Event = iota // from the guest, no flow yet
	EvAccept                 // from the host
	EvConnected              // the host's socket is connected
	EvACK                    // the guest completes our SYN,ACK
	EvSYNACK                 // the guest answers our SYN
	EvClose                  // reset, both FINs done, or given up
	numEvents
)

// next is the transition table; StateClosed where an event is illegal, except for EvClose, which leads there.
var next = [numStates][numEvents]State{
	StateClosed:     {EvSYN: StateConnecting, EvAccept: StateSynSent},
	StateConnecting: {EvConnected: StateSynAckSent},
	StateSynAckSent: {EvACK: StateOpen},
	StateSynSent:    {EvSYNACK: StateOpen},
}

var stateNames = [numStates]string{"closed", "connecting", "syn-ack sent", "syn sent", "open"}

// String names the state.
func (s State) String() string { return stateNames[s] }
