// SPDX-License-Identifier: Apache-2.0

package conf

import "strings"

// pair makes a setter of an option that holds one address per family, the last of each family counting.
func pair(what string, no refuse, field func(o *Options) *Pair) func(*Options, string) error {
	return func(o *Options, v string) error {
		a, err := checked(v, what, no)
		if err == nil {
			*field(o).of(&a) = a
		}
		return err
	}
}

func setRunAs(o *Options, v string) error {
	if v == "" {
		return errorf("Invalid user: empty")
	}
	o.RunAs = v
	return nil
}

func setMTU(o *Options, v string) error {
	n, ok := number(v, MaxMTU)
	if !ok {
		return errorf("Invalid MTU: %s, must be a number from 0 to %d", v, MaxMTU)
	}
	o.MTU = n
	return nil
}

func setAddress(o *Options, v string) error {
	text, length, hasLen := strings.Cut(v, "/")
	a, err := checked(text, "address", noUnspecified|noLoopback|noBroadcast|noMulticast)
	if err != nil {
		return err
	}
	n, limit, to := 0, 128, &o.AddrLen6
	if a.Is4() {
		limit, to = 32, &o.AddrLen4
	}
	if hasLen {
		var ok bool
		if n, ok = decimal(length, limit); !ok {
			return errorf("Invalid prefix length: %s", v)
		}
	}
	*o.Addr.of(&a), *to, o.lastLen = a, n, n != 0
	return nil
}

func setMapLoop(o *Options, v string) error {
	if v == "none" {
		o.MapLoop, o.NoMapGW = Pair{}, true
		return nil
	}
	return pair("address to map to host loopback", noUnspecified|noLoopback|noMulticast, func(o *Options) *Pair { return &o.MapLoop })(o, v)
}

func setMapGuest(o *Options, v string) error {
	if v == "none" {
		o.MapGuest = Pair{}
		return nil
	}
	return pair("address to map to the guest's address", noUnspecified|noLoopback|noMulticast, func(o *Options) *Pair { return &o.MapGuest })(o, v)
}

func setDNS(o *Options, v string) error {
	if v == "none" {
		o.DNS4, o.DNS6, o.NoDNS = nil, nil, true
		o.DNSForward, o.DNSHost = Pair{}, Pair{}
		return nil
	}
	a, err := checked(v, "DNS address", 0)
	if err != nil {
		return err
	}
	o.NoDNS = false
	list := &o.DNS6
	if a.Is4() {
		list = &o.DNS4
	}
	if len(*list) < maxDNS {
		*list = append(*list, a)
	}
	return nil
}

// setSearch takes one name or several with blanks between them (QEMU writes them so).
func setSearch(o *Options, v string) error {
	if v == "none" {
		o.Search, o.NoSearch = nil, true
		return nil
	}
	words := strings.Fields(v)
	if len(words) == 0 {
		return errorf("Empty search domain")
	}
	for _, w := range words {
		switch {
		case len(w) > maxDomain:
			return errorf("Search domain is longer than %d bytes: %s", maxDomain, w)
		case len(o.Search) == maxSearch:
			return errorf("Too many search domains, at most %d: %s", maxSearch, w)
		}
		o.Search = append(o.Search, w)
	}
	o.NoSearch = false
	return nil
}

func setNetNS(o *Options, v string) error {
	p, err := path(v, "network namespace")
	if err == nil && !strings.Contains(p, "/") {
		p = "/run/netns/" + p
	}
	o.NetNS = p
	return err
}
