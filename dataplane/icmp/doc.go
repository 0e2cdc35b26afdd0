// SPDX-License-Identifier: Apache-2.0

// Package icmp forwards echo requests of the guest through ping sockets that a broker made and connected, the
// replies, and the errors that concern them. One flow for each guest address, destination and identifier; the kernel picks the
// identifier on the host's side, the guest's is put back.
//
// It forwards no other ICMP, and never lets the guest choose what a socket is connected to. Read icmp.go first.
package icmp
