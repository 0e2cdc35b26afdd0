// SPDX-License-Identifier: Apache-2.0

package tcp

import "passt/internal/sys"

// answer is what the guest gets for a connection that the host refused.
type answer uint8

const (
	answerReset  answer = iota // RST: the guest's connect fails at once
	answerSilent               // nothing: the guest tries its SYN again
)

// answerOf maps an errno of socket(2), bind(2) or connect(2). A shortage of memory passes, so the guest's next SYN may have
// more luck; a shortage of descriptors or ports lasts, and a refusal is an answer.
func answerOf(e sys.Errno) answer {
	switch e {
	case sys.ENOBUFS, sys.ENOMEM, sys.EAGAIN:
		return answerSilent
	}
	return answerReset
}
