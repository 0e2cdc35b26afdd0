// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Form on the pipe: length of the JSON text (4 bytes, little-endian), the text without routes, then the routes of
// IPv4 and of IPv6, each list as a count, each route as its length, its protocol and the kernel's bytes. A host may have
// tens of thousands of routes, and JSON would spend ten times their size on them.

const noRoutes = 0xffffffff // the list is nil, not empty

var errNSConfig = errors.New("namespace configuration: cut short")

// Marshal encodes for the pipe to the agent; both ends are one binary.
func (c *NSConfig) Marshal() ([]byte, error) {
	small := *c
	small.V4.CopyRoutes, small.V6.CopyRoutes = nil, nil
	text, err := json.Marshal(&small)
	if err != nil {
		return nil, err
	}
	size := 4 + len(text) + 4 + 4
	for _, list := range [][]Route{c.V4.CopyRoutes, c.V6.CopyRoutes} {
		for i := range list {
			size += 4 + 1 + len(list[i].Raw)
		}
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(len(text)))
	b = append(b, text...)
	for _, list := range [][]Route{c.V4.CopyRoutes, c.V6.CopyRoutes} {
		if list == nil {
			b = binary.LittleEndian.AppendUint32(b, noRoutes)
			continue
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(list)))
		for i := range list {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(list[i].Raw)))
			b = append(b, list[i].Protocol)
			b = append(b, list[i].Raw...)
		}
	}
	return b, nil
}

// UnmarshalNSConfig reads what Marshal wrote. Routes point into b.
func UnmarshalNSConfig(b []byte) (NSConfig, error) {
	var c NSConfig
	text, b, err := cut(b)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("namespace configuration: %w", err)
	}
	if c.V4.CopyRoutes, b, err = cutRoutes(b, inet); err != nil {
		return c, err
	}
	if c.V6.CopyRoutes, b, err = cutRoutes(b, inet6); err != nil {
		return c, err
	}
	if len(b) != 0 {
		return c, fmt.Errorf("namespace configuration: %d bytes left over", len(b))
	}
	return c, nil
}

// cut takes a length and that many bytes off b.
func cut(b []byte) (head, rest []byte, err error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b)) {
		return nil, nil, errNSConfig
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return b[4:n:n], b[n:], nil
}

func cutRoutes(b []byte, family byte) ([]Route, []byte, error) {
	if len(b) < 4 {
		return nil, nil, errNSConfig
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; n == noRoutes {
		return nil, b, nil
	}
	if uint64(n)*(4+1) > uint64(len(b)) {
		return nil, nil, errNSConfig
	}
	out := make([]Route, 0, n)
	for range n {
		if len(b) < 5 {
			return nil, nil, errNSConfig
		}
		size, protocol := binary.LittleEndian.Uint32(b), b[4]
		if b = b[5:]; uint64(size) > uint64(len(b)) {
			return nil, nil, errNSConfig
		}
		r, _, _ := parseRoute(b[:size:size], family) // was read once before; what cannot be read is not installed
		r.Protocol = protocol
		out, b = append(out, r), b[size:]
	}
	return out, b, nil
}
