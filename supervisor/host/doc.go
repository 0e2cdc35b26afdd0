// SPDX-License-Identifier: Apache-2.0

// Package host asks and tells the kernel what the start needs, before the lock-down: interfaces, addresses and
// routes of the host by netlink, resolv.conf, the tap, and the configuration of the namespace. Routes are kept as the
// kernel dumped them, so that copying loses no attribute that it does not know.
//
//	host's namespace (supervisor)            target namespace (agent)
//	Discover   discover.go                   OpenTap    tap.go
//	  interfaces, addresses   link.go        Configure  configure.go
//	  routes, next hops       route.go         addresses, own default route
//	ReadResolv resolv.go                       copied routes             copy.go
//	Sysctl     sysctl.go
//	        NSConfig ---- marshal.go, a pipe ---->
//
// It must never run after the lock-down, and never decide what the options mean (supervisor/conf does).
// Read discover.go first, then configure.go.
package host
