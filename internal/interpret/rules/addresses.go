// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// addresses declares the functions on IP addresses and CIDRs.
func addresses() []cel.EnvOption {
	ipKind, cidrKind := cel.ObjectType("net.IP"), cel.ObjectType("net.CIDR")
	d := &declaration{}
	wrapIP := func(ip netip.Addr) ref.Val {
		return opaque[netip.Addr]{kind: ipKind, value: ip, text: ip.String(), equal: func(a, b netip.Addr) bool { return a == b }}
	}
	wrapCIDR := func(p netip.Prefix) ref.Val {
		return opaque[netip.Prefix]{kind: cidrKind, value: p, text: p.String(), equal: func(a, b netip.Prefix) bool { return a == b }}
	}
	toIP, isIP := reading(readIP, wrapIP)
	d.global("ip", "string_to_ip", cel.StringType, ipKind, toIP)
	d.global("isIP", "is_ip_string", cel.StringType, cel.BoolType, isIP)
	canonical, _ := reading(func(text string) (bool, error) {
		ip, err := readIP(text)
		return ip.String() == text, err
	}, func(yes bool) ref.Val { return types.Bool(yes) })
	d.global("ip.isCanonical", "ip_is_canonical", cel.StringType, cel.BoolType, canonical)
	d.global("string", "ip_to_string", ipKind, cel.StringType, of(func(ip netip.Addr) ref.Val { return types.String(ip.String()) }))
	d.member("family", "ip_family", ipKind, cel.IntType, of(func(ip netip.Addr) ref.Val {
		if ip.Is4() {
			return types.Int(4)
		}
		return types.Int(6)
	}))
	for name, is := range map[string]func(netip.Addr) bool{
		"isUnspecified": netip.Addr.IsUnspecified, "isLoopback": netip.Addr.IsLoopback, "isGlobalUnicast": netip.Addr.IsGlobalUnicast,
		"isLinkLocalMulticast": netip.Addr.IsLinkLocalMulticast, "isLinkLocalUnicast": netip.Addr.IsLinkLocalUnicast,
	} {
		d.member(name, "ip_"+name, ipKind, cel.BoolType, of(func(ip netip.Addr) ref.Val { return types.Bool(is(ip)) }))
	}

	toCIDR, isCIDR := reading(readCIDR, wrapCIDR)
	d.global("cidr", "string_to_cidr", cel.StringType, cidrKind, toCIDR)
	d.global("isCIDR", "is_cidr_string", cel.StringType, cel.BoolType, isCIDR)
	d.global("string", "cidr_to_string", cidrKind, cel.StringType, of(func(p netip.Prefix) ref.Val { return types.String(p.String()) }))
	d.member("ip", "cidr_ip", cidrKind, ipKind, of(func(p netip.Prefix) ref.Val { return wrapIP(p.Addr()) }))
	d.member("masked", "cidr_masked", cidrKind, cidrKind, of(func(p netip.Prefix) ref.Val { return wrapCIDR(p.Masked()) }))
	d.member("prefixLength", "cidr_prefix_length", cidrKind, cel.IntType, of(func(p netip.Prefix) ref.Val { return types.Int(p.Bits()) }))
	within(d, "containsIP", cidrKind, ipKind, toIP, func(p netip.Prefix, ip netip.Addr) bool { return p.Contains(ip) })
	within(d, "containsCIDR", cidrKind, cidrKind, toCIDR, func(p, inner netip.Prefix) bool {
		return inner.Bits() >= p.Bits() && p.Contains(inner.Addr())
	})
	return d.options
}

// within declares whether a CIDR contains something, given as such or as a text.
func within[T any](d *declaration, name string, cidr, kind *cel.Type, read func(ref.Val) ref.Val, contains func(netip.Prefix, T) bool) {
	call := func(a, b ref.Val) ref.Val {
		if _, text := b.(types.String); text {
			b = read(b)
		}
		p, ok := a.(opaque[netip.Prefix])
		inner, known := b.(opaque[T])
		switch {
		case !ok:
			return types.MaybeNoSuchOverloadErr(a)
		case !known:
			return types.MaybeNoSuchOverloadErr(b)
		}
		return types.Bool(contains(p.value, inner.value))
	}
	d.with(name, "cidr_"+name+"_value", cidr, kind, cel.BoolType, call)
	d.with(name, "cidr_"+name+"_string", cidr, cel.StringType, cel.BoolType, call)
}

func readIP(text string) (netip.Addr, error) {
	if len(text) > addressBytesMax {
		return netip.Addr{}, fmt.Errorf("an IP address has at most %d bytes", addressBytesMax)
	}
	ip, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is not an IP address", text)
	case ip.Zone() != "":
		return netip.Addr{}, fmt.Errorf("the IP address %q has a zone, which is not possible", text)
	case ip.Is4In6():
		return netip.Addr{}, fmt.Errorf("the IP address %q is an IPv4 address written as IPv6, which is not possible", text)
	}
	return ip, nil
}

func readCIDR(text string) (netip.Prefix, error) {
	if len(text) > addressBytesMax {
		return netip.Prefix{}, fmt.Errorf("a CIDR has at most %d bytes", addressBytesMax)
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR such as 10.0.0.0/8", text)
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("the CIDR %q has an IPv4 address written as IPv6, which is not possible", text)
	}
	return p, nil
}

// urls declares the functions on URLs.
func urls() []cel.EnvOption {
	kind := cel.ObjectType("kubernetes.URL")
	d := &declaration{}
	value, valid := reading(readURL, func(u *url.URL) ref.Val {
		return opaque[*url.URL]{kind: kind, value: u, text: u.String(), equal: func(a, b *url.URL) bool { return a.String() == b.String() }}
	})
	d.global("url", "string_to_url", cel.StringType, kind, value)
	d.global("isURL", "is_url_string", cel.StringType, cel.BoolType, valid)
	for name, part := range map[string]func(*url.URL) string{
		"getScheme": func(u *url.URL) string { return u.Scheme }, "getHost": func(u *url.URL) string { return u.Host },
		"getHostname": (*url.URL).Hostname, "getPort": (*url.URL).Port, "getEscapedPath": (*url.URL).EscapedPath,
	} {
		d.member(name, "url_"+name, kind, cel.StringType, of(func(u *url.URL) ref.Val { return types.String(part(u)) }))
	}
	d.member("getQuery", "url_getQuery", kind, cel.MapType(cel.StringType, cel.ListType(cel.StringType)), of(func(u *url.URL) ref.Val {
		return types.DefaultTypeAdapter.NativeToValue(map[string][]string(u.Query()))
	}))
	return d.options
}

var errURL = errors.New("it is not a URL with a scheme, such as https://example.com/a, nor a path that begins with a slash")

func readURL(text string) (*url.URL, error) {
	if len(text) > urlBytesMax {
		return nil, fmt.Errorf("a URL has at most %d bytes", urlBytesMax)
	}
	u, err := url.ParseRequestURI(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, errURL)
	}
	return u, nil
}
