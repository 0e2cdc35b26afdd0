// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"fmt"

	"passt/internal/sys"
	"passt/internal/sys/priv"
)

// Cap is a capability's number (capabilities(7)).
type Cap uint

// Capabilities that this program ever names.
const (
	CapSetPcap        Cap = 8
	CapNetBindService Cap = 10
	CapNetAdmin       Cap = 12
	CapNetRaw         Cap = 13
	CapSysChroot      Cap = 18
	CapSysPtrace      Cap = 19
	CapSysAdmin       Cap = 21
)

func capMask(caps []Cap) (m uint64) {
	for _, c := range caps {
		m |= 1 << c
	}
	return m
}

// keepCaps reduces all sets to the given ones, those of them that are there. The bounding set comes first, while
// CAP_SETPCAP is there; without it the set stays (it counts only for an exec, which no_new_privs makes harmless).
func keepCaps(s priv.Scope, keep uint64) error {
	have, e := priv.Capget()
	if e != 0 {
		return fmt.Errorf("read capabilities: %w", e)
	}
	if have.Effective>>CapSetPcap&1 != 0 {
		if e := dropBounding(s, keep); e != 0 {
			return fmt.Errorf("drop bounding set: %w", e)
		}
	}
	// Kernels before 4.3 have no ambient set (EINVAL).
	if e := priv.ClearAmbient(s); e != 0 && e != sys.EINVAL {
		return fmt.Errorf("clear ambient set: %w", e)
	}
	keep &= have.Permitted
	if e := priv.Capset(s, priv.CapSets{Effective: keep, Permitted: keep}); e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	return nil
}

func dropBounding(s priv.Scope, keep uint64) sys.Errno {
	for c := uint(0); c < 64; c++ {
		in, e := priv.InBounding(c)
		if e == sys.EINVAL {
			return 0 // past the kernel's last one
		}
		if !in || keep>>c&1 != 0 {
			continue
		}
		if e := priv.DropBounding(s, c); e != 0 {
			return e
		}
	}
	return 0
}
