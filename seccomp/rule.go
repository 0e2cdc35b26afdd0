// SPDX-License-Identifier: Apache-2.0

package seccomp

import "strconv"

// Role names one kind of process after its lock-down.
type Role uint8

// The roles that have a list.
const (
	WorkerPasta Role = iota + 1 // data path of pasta: tap or socket on one side, handed-over sockets on the other
	Supervisor                  // host side: makes sockets, watches children
	Agent                       // namespace side of pasta: makes sockets there
)

// Roles gives all of them.
func Roles() []Role { return []Role{WorkerPasta, Supervisor, Agent} }

// String gives the name used in file names and in text for users.
func (r Role) String() string {
	switch r {
	case WorkerPasta:
		return "worker-pasta"
	case Supervisor:
		return "supervisor"
	case Agent:
		return "agent"
	}
	return "role " + strconv.Itoa(int(r))
}

// Architectures that have programs, by Go's names.
func Architectures() []string { return []string{"amd64", "arm64"} }

// Rule allows one system call, if all conditions hold. A call may stand in several rules: one of them suffices.
type Rule struct {
	Call string // name, as in the manual pages
	Args []Cond // on different arguments; none: whatever the arguments
	Only string // the only architecture with this rule; empty: all
	By   string // the file that makes the call, or goRuntime
	Why  string // what it is needed for
	Cold string // why a run of the tests may not show it; empty: they do
}

// Cond holds when argument Arg, ANDed with Mask, is one of Values.
type Cond struct {
	Arg    int // 0..5
	Mask   uint64
	Values []uint64 // no bit outside of Mask
}

const fullMask = 1<<64 - 1

// is compares all 64 bits. For an int argument, whose upper half the kernel ignores, that asks for a zero there: it
// costs one instruction less than leaving it out, and callers of ours pass no negative values.
func is(arg int, values ...uint64) Cond { return Cond{Arg: arg, Mask: fullMask, Values: values} }

// without compares all 64 bits except those in free.
func without(arg int, free, value uint64) Cond {
	return Cond{Arg: arg, Mask: ^free, Values: []uint64{value}}
}

// option is a socket option by level and name, arguments 1 and 2 of getsockopt and setsockopt.
func option(level, name uint64) []Cond { return []Cond{is(1, level), is(2, name)} }

// Rules gives a role's list for an architecture, most frequent first. A nil list: no such role.
func Rules(role Role, arch string) []Rule {
	var lists [][]Rule
	switch role {
	case WorkerPasta:
		lists = [][]Rule{workerHot(), workerFlow(), workerOptions(), runtimeAll()}
	case Supervisor:
		lists = [][]Rule{brokerServe(), brokerOptions(), supervisorOnly(), runtimeAll(), runtimeThreads()}
	case Agent:
		lists = [][]Rule{brokerServe(), brokerOptions(), runtimeAll(), runtimeThreads()}
	}
	var out []Rule
	for _, l := range lists {
		for _, r := range l {
			if r.Only == "" || r.Only == arch {
				out = append(out, r)
			}
		}
	}
	return out
}
