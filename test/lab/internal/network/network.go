// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network makes the network of a lab: a bridge on the host, and for
// every cluster a network namespace that is plugged into it.
//
// It calls ip and iptables, because their command lines are what a reader who
// debugs the network knows and can repeat.
package network

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// namespaceDir is where ip keeps the named network namespaces.
const namespaceDir = "/run/netns"

// Bridge is the switch all clusters are plugged into.
type Bridge struct {
	Name string
	// Address is the host's own address on the bridge.
	Address netip.Prefix
}

// Ensure makes the bridge if it does not exist, and lets frames pass it
// whatever the host's firewall forwards otherwise.
func (b Bridge) Ensure() error {
	if !linkExists(b.Name) {
		if err := run("ip", "link", "add", b.Name, "type", "bridge"); err != nil {
			return err
		}
	}
	if err := runAll(
		[]string{"ip", "address", "replace", b.Address.String(), "dev", b.Name},
		[]string{"ip", "link", "set", b.Name, "up"},
	); err != nil {
		return err
	}
	if b.forwards() {
		return nil
	}
	return b.iptables("-I")
}

// Remove removes what Ensure made. Only the name of the bridge matters.
func (b Bridge) Remove() error {
	var errs []error
	if b.forwards() {
		errs = append(errs, b.iptables("-D"))
	}
	if linkExists(b.Name) {
		errs = append(errs, run("ip", "link", "delete", b.Name))
	}
	return errors.Join(errs...)
}

func (b Bridge) forwards() bool {
	return b.iptables("-C") == nil
}

func (b Bridge) iptables(action string) error {
	return run("iptables", "-w", action, "FORWARD", "-i", b.Name, "-o", b.Name, "-j", "ACCEPT")
}

// Namespace is the network of one cluster.
type Namespace struct {
	Name string
	// Link is the name of the host's end of the cable to the bridge.
	Link string
	// Address is the cluster's address on the bridge.
	Address netip.Prefix
}

// Ensure makes the namespace if it does not exist and plugs it into a bridge.
func (n Namespace) Ensure(bridge Bridge) error {
	if !exists(filepath.Join(namespaceDir, n.Name)) {
		if err := run("ip", "netns", "add", n.Name); err != nil {
			return err
		}
	}
	if !linkExists(n.Link) {
		if err := run("ip", "link", "add", n.Link, "type", "veth", "peer", "name", "eth0", "netns", n.Name); err != nil {
			return err
		}
	}
	return runAll(
		[]string{"ip", "link", "set", n.Link, "master", bridge.Name, "up"},
		[]string{"ip", "-n", n.Name, "link", "set", "lo", "up"},
		[]string{"ip", "-n", n.Name, "address", "replace", n.Address.String(), "dev", "eth0"},
		[]string{"ip", "-n", n.Name, "link", "set", "eth0", "up"},
		[]string{"ip", "-n", n.Name, "route", "replace", "default", "via", bridge.Address.Addr().String()},
	)
}

// Unplug cuts the namespace off from the bridge, until the next Ensure.
func (n Namespace) Unplug() error {
	if !linkExists(n.Link) {
		return nil
	}
	return run("ip", "link", "set", n.Link, "down")
}

// Drop makes the namespace lose, without a word to the sender, whatever comes
// from an address.
func (n Namespace) Drop(from netip.Addr) error {
	if n.iptables("-C", from) == nil {
		return nil
	}
	return n.iptables("-I", from)
}

// Accept undoes Drop.
func (n Namespace) Accept(from netip.Addr) error {
	if n.iptables("-C", from) != nil {
		return nil //nolint:nilerr // the rule is not there
	}
	return n.iptables("-D", from)
}

func (n Namespace) iptables(action string, from netip.Addr) error {
	return run("ip", "netns", "exec", n.Name,
		"iptables", "-w", "-t", "raw", action, "PREROUTING", "-s", from.String(), "-j", "DROP")
}

// Dropped returns the addresses for which Drop is in force.
func (n Namespace) Dropped() ([]netip.Addr, error) {
	if !exists(filepath.Join(namespaceDir, n.Name)) {
		return nil, nil
	}
	output, err := exec.Command("ip", "netns", "exec", n.Name,
		"iptables", "-w", "-t", "raw", "-S", "PREROUTING").Output()
	if err != nil {
		return nil, fmt.Errorf("list partitions of %s: %w", n.Name, err)
	}
	return parseDropped(string(output)), nil
}

// parseDropped reads addresses from rules such as
// -A PREROUTING -s 192.0.2.1/32 -j DROP.
func parseDropped(rules string) []netip.Addr {
	var addresses []netip.Addr
	for rule := range strings.Lines(rules) {
		fields := strings.Fields(rule)
		source := slices.Index(fields, "-s") + 1
		if source == 0 || source == len(fields) {
			continue
		}
		if prefix, err := netip.ParsePrefix(fields[source]); err == nil {
			addresses = append(addresses, prefix.Addr())
		}
	}
	return addresses
}

// RemoveNamespaces removes the namespaces whose names begin with a prefix,
// with all that is in them.
func RemoveNamespaces(prefix string) error {
	names, err := FindNamespaces(prefix)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		// The cable goes first, for a namespace ends only some time after its
		// name. There is none if making the namespace was interrupted.
		_ = run("ip", "-n", name, "link", "delete", "eth0")
		errs = append(errs, run("ip", "netns", "delete", name))
	}
	return errors.Join(append(errs, removeNamespaceDir())...)
}

// removeNamespaceDir removes the directory of the named network namespaces, and
// the mount that ip makes of it, unless somebody has a namespace there.
func removeNamespaceDir() error {
	entries, err := os.ReadDir(namespaceDir)
	if errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list network namespaces: %w", err)
	}
	// It is no mount point if ip was interrupted, and busy if somebody makes a
	// namespace at this moment.
	if err := unix.Unmount(namespaceDir, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("unmount %s: %w", namespaceDir, err)
	}
	if err := os.Remove(namespaceDir); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("remove directory of network namespaces: %w", err)
	}
	return nil
}

// FreeSubnet returns one of the 256 /24 subnets of a /16 prefix, which overlaps
// no address of the host's interfaces: the first from a given one on.
func FreeSubnet(within netip.Prefix, first byte) (netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("list addresses of the host: %w", err)
	}
	var used []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			used = append(used, prefix)
		}
	}
	return firstFree(within, first, used)
}

func firstFree(within netip.Prefix, first byte, used []netip.Prefix) (netip.Prefix, error) {
	address := within.Addr().As4()
	for i := range 256 {
		address[2] = first + byte(i)
		subnet := netip.PrefixFrom(netip.AddrFrom4(address), 24)
		if !slices.ContainsFunc(used, subnet.Overlaps) {
			return subnet, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("the host uses every /24 subnet of %s", within)
}

func linkExists(name string) bool {
	return exists(filepath.Join(linkDir, name))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func runAll(commands ...[]string) error {
	for _, command := range commands {
		if err := run(command[0], command[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func run(name string, args ...string) error {
	output, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}
