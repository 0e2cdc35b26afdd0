// SPDX-License-Identifier: Apache-2.0

package tcp

import "passt/internal/sys"

// answer is what the guest gets for a connection that the host refused.
type answer uint8

const (
	answerReset  answer = iota // RST: connect fails at once
	answerSilent               // nothing: the guest tries its SYN again
)

// answerOf maps an errno. A shortage that passes is left to the guest's next SYN; everything else is final.
func answerOf(e sys.Errno) answer {
	switch e {
	case sys.ENOBUFS, sys.ENOMEM, sys.EAGAIN, sys.EADDRNOTAVAIL:
		return answerSilent
	}
	return answerReset
}
