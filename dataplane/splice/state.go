// SPDX-License-Identifier: Apache-2.0

package splice

// state is where a connection stands; half0 and half1: the end of file of that side was passed on.
type state uint8

const (
	stNone    state = iota // illegal; also an unused row
	stAsked                // the broker was asked for side 1; side 0 is only watched
	stConnect              // side 1 exists, its handshake runs
	stOpen                 // bytes flow both ways
	stHalf0                // lane 0 is finished, lane 1 flows
	stHalf1                // lane 1 is finished, lane 0 flows
	stClosed               // both finished: close
	stReset                // failed: close both sides with a reset
	numStates
)

type event uint8

const (
	evOpening   event = iota // broker gave a socket that is not connected yet
	evConnected              // side 1 is connected
	evFin0                   // end of file of side 0 was passed on to side 1
	evFin1                   // and the reverse
	evFail                   // reset, refusal, error
	numEvents
)

// next holds every transition; stNone means illegal (our bug).
var next = [numStates][numEvents]state{
	stAsked:   {evOpening: stConnect, evConnected: stOpen, evFail: stReset},
	stConnect: {evConnected: stOpen, evFail: stReset},
	stOpen:    {evFin0: stHalf0, evFin1: stHalf1, evFail: stReset},
	stHalf0:   {evFin1: stClosed, evFail: stReset},
	stHalf1:   {evFin0: stClosed, evFail: stReset},
}

var stateNames = [numStates]string{
	stNone: "none", stAsked: "asked", stConnect: "connect", stOpen: "open",
	stHalf0: "half 0", stHalf1: "half 1", stClosed: "closed", stReset: "reset",
}

// String gives the state's name.
func (s state) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "?"
}
