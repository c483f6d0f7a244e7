// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"fmt"
	"net/netip"
	"syscall"
)

// AddressGuard keeps the hub from being made to dial itself. The zero value forbids
// addresses that mean this host or this link.
type AddressGuard struct {
	// Forbidden are networks that nothing may be dialled in, such as that of the
	// hub's Services.
	Forbidden []netip.Prefix
	// Allowed are networks that may be dialled whatever else is said.
	Allowed []netip.Prefix
}

// ForbiddenAddressError says that an address must not be dialled.
type ForbiddenAddressError struct {
	Address netip.Addr
	Why     string
}

// Error implements error.
func (e *ForbiddenAddressError) Error() string {
	return fmt.Sprintf("connecting to %s is forbidden: it is %s; if this is intended, allow it with --allowed-networks of the push agent", e.Address, e.Why)
}

// nat64 is the prefix of addresses that stand for the IPv4 address at their end.
func nat64() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b}), 96)
}

// CheckAddress returns a ForbiddenAddressError if the address must not be dialled.
func (g AddressGuard) CheckAddress(address netip.Addr) error {
	address = address.WithZone("").Unmap()
	if isInNetworks(g.Allowed, address) {
		return nil
	}
	inner := address
	if nat64().Contains(address) {
		bytes := address.As16()
		inner = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	switch {
	case inner.IsLoopback():
		return &ForbiddenAddressError{address, "a loopback address"}
	case inner.IsLinkLocalUnicast():
		return &ForbiddenAddressError{address, "a link-local address"}
	case inner.IsUnspecified(), inner.IsMulticast(), inner == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return &ForbiddenAddressError{address, "not that of a host"}
	case isInNetworks(g.Forbidden, inner), isInNetworks(g.Forbidden, address):
		return &ForbiddenAddressError{address, "in a network of the hub"}
	}
	return nil
}

// ControlDial is that of a net.Dialer: it is called with each address before it is dialled.
func (g AddressGuard) ControlDial(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("understanding the address %q: %w", address, err)
	}
	return g.CheckAddress(target.Addr())
}

func isInNetworks(networks []netip.Prefix, address netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
