// SPDX-License-Identifier: Apache-2.0

package sys

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alloc maps n bytes of zeroed private memory outside the Go heap: never moved, never scanned by the collector,
// no page resident before its first use. It is never freed (tables live as long as the process).
// policy: boot
func Alloc(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		panic(fmt.Sprintf("sys.Alloc: %d bytes: %v", n, err))
	}
	return b
}

// AllocOf maps a table of n rows of T outside the Go heap. T must hold no Go pointer.
// policy: boot
func AllocOf[T any](n int) []T {
	var t T
	b := Alloc(max(1, n*int(unsafe.Sizeof(t))))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// Release gives the pages of b (from Alloc) back to the kernel; they read as zero afterwards.
// Only whole pages inside b are released.
// policy: worker
func Release(b []byte) {
	const page = 4096
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	skip := int(-p & (page - 1))
	n := (len(b) - skip) &^ (page - 1)
	if n <= 0 {
		return
	}
	_, _, _ = rawSyscall(unix.SYS_MADVISE, p+uintptr(skip), uintptr(n), unix.MADV_DONTNEED)
}

// Iovec is struct iovec. Its base is kept as a number: it may point only at memory that
// never moves (Alloc, guest memory, or a heap slice that the caller keeps alive).
type Iovec struct {
	base uintptr
	n    uint64
}

// Set makes the vector point at b.
func (v *Iovec) Set(b []byte) {
	v.base = uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	v.n = uint64(len(b))
}

// Len gives the bytes that the vector covers.
func (v *Iovec) Len() int { return int(v.n) }

// Advance drops the first n bytes, n ≤ Len.
func (v *Iovec) Advance(n int) {
	v.base += uintptr(n)
	v.n -= uint64(n)
}

// Cut shortens the vector to n bytes, n ≤ Len.
func (v *Iovec) Cut(n int) { v.n = uint64(n) }

func ptr(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Bytes gives what the vector covers, under the same conditions as Set.
func (v *Iovec) Bytes() []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&v.base)), v.n)
}
