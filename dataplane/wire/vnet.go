// SPDX-License-Identifier: Apache-2.0

package wire

import "encoding/binary"

// VnetSize is the length of the virtio-net header on the tap: 10 bytes and num_buffers (virtio 1.2, Device Operation of the network device).
const VnetSize = 12

// Fields of the virtio-net header.
const (
	VnetNeedsCsum = 1 // flags: checksum field holds the folded pseudo-header sum only
	VnetDataValid = 2 // flags: checksum already verified (ignored by tun on receive)
	GSONone       = 0
	GSOTCP4       = 1
	GSOUDP        = 3 // UFO, refused
	GSOTCP6       = 4
	GSOUDPL4      = 5
	GSOECN        = 0x80
)

// Vnet is the virtio-net header in host order.
type Vnet struct {
	Flags      uint8
	GSOType    uint8
	HdrLen     uint16
	GSOSize    uint16
	CsumStart  uint16
	CsumOffset uint16
}

// ParseVnet reads b[:VnetSize]; values are not judged here.
func ParseVnet(b []byte) Vnet {
	le := binary.LittleEndian
	_ = b[VnetSize-1]
	return Vnet{Flags: b[0], GSOType: b[1], HdrLen: le.Uint16(b[2:]), GSOSize: le.Uint16(b[4:]), CsumStart: le.Uint16(b[6:]), CsumOffset: le.Uint16(b[8:])}
}

// Put writes b[:VnetSize], num_buffers 0.
func (v *Vnet) Put(b []byte) {
	le := binary.LittleEndian
	_ = b[VnetSize-1]
	b[0], b[1] = v.Flags, v.GSOType
	le.PutUint16(b[2:], v.HdrLen)
	le.PutUint16(b[4:], v.GSOSize)
	le.PutUint16(b[6:], v.CsumStart)
	le.PutUint16(b[8:], v.CsumOffset)
	b[10], b[11] = 0, 0
}
