// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import "net/netip"

// LocalAddress says why an address means another host on the hub than here, or
// nothing.
func LocalAddress(host string) string {
	address, err := netip.ParseAddr(host)
	switch {
	case host == "localhost", err == nil && address.Unmap().IsLoopback():
		return "a loopback address"
	case err == nil && address.Unmap().IsLinkLocalUnicast():
		return "a link-local address"
	case err == nil && address.IsUnspecified():
		return "not that of a host"
	}
	return ""
}
