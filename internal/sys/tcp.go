// SPDX-License-Identifier: Apache-2.0

package sys

import "golang.org/x/sys/unix"

// PollPri is reported when urgent data arrives on a TCP socket: reads then stop at it (tcp(7)).
const PollPri = unix.EPOLLPRI
