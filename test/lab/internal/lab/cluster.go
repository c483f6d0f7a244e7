// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/capstan-io/capstan/test/lab/internal/etcd"
	"github.com/capstan-io/capstan/test/lab/internal/inventory"
	"github.com/capstan-io/capstan/test/lab/internal/network"
)

const (
	// clusterDomain is the DNS domain of the services of every cluster.
	clusterDomain = "cluster.local"
	// apiPort is the port of the API server of every cluster.
	apiPort = 6443
	// firstHost comes before the host part of the first cluster's address.
	firstHost = 10
)

// cluster is a cluster of a lab.
type cluster struct {
	inventory.Entry
	lab *Lab
}

// address is the address of the cluster's API server and node.
func (c *cluster) address() netip.Prefix {
	return c.lab.state.Address(byte(firstHost + c.Index))
}

// url is where the API server is found, from anywhere in the lab.
func (c *cluster) url() string {
	return fmt.Sprintf("https://%s:%d", c.address().Addr(), apiPort)
}

// podCIDR is the range of the addresses of pods. No other cluster has it, and
// no other cluster can reach it.
func (c *cluster) podCIDR() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 200, byte(c.Index), 0}), 24)
}

// serviceCIDR is the range of the addresses of services.
func (c *cluster) serviceCIDR() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 201, byte(c.Index), 0}), 24)
}

// serviceIP is the address of the service kubernetes.
func (c *cluster) serviceIP() netip.Addr {
	return c.serviceCIDR().Addr().Next()
}

// dnsIP is the address of the service kube-dns.
func (c *cluster) dnsIP() netip.Addr {
	address := c.serviceCIDR().Addr().As4()
	address[3] = 10
	return netip.AddrFrom4(address)
}

// node is the name of the cluster's node.
func (c *cluster) node() string {
	return c.Name + "-node"
}

// path returns the path of a file of the cluster.
func (c *cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.lab.place.dir, "clusters", c.Name}, elem...)...)
}

// namespace is the network of the cluster.
func (c *cluster) namespace() network.Namespace {
	return network.Namespace{
		Name:    c.lab.place.id() + "-" + c.Name,
		Link:    fmt.Sprintf("%s-%d", c.lab.place.id(), c.Index),
		Address: c.address(),
	}
}

// group is the control group of the cluster, which holds those of its pods.
func (c *cluster) group() string {
	return filepath.Join(c.lab.place.group(), c.Name)
}

// daemonGroup is the control group of the cluster's daemons. They have one of
// their own because a group that has groups below it may hold no processes.
func (c *cluster) daemonGroup() string {
	return filepath.Join(c.group(), "daemons")
}

// etcd is the etcd that keeps the cluster's objects: clusters without a node
// share one, because they are many and small.
func (c *cluster) etcd() etcd.Etcd {
	if c.Nodeless {
		shared := c.lab.place.sharedEtcd()
		shared.Fsync = c.Fsync
		return shared
	}
	return etcd.Etcd{
		Fsync:     c.Fsync,
		Dir:       c.path("etcd"),
		Namespace: c.namespace().Name,
		Group:     c.daemonGroup(),
		Log:       c.logFile("etcd"),
	}
}

// etcdPrefix is where in etcd the cluster's objects are.
func (c *cluster) etcdPrefix() string {
	if c.Nodeless {
		return "/registry/" + c.Name
	}
	return "/registry"
}

func (c *cluster) logFile(component string) string {
	return c.path("logs", component+".log")
}
