// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestTheAPIServerRefusesWhatCannotWork(t *testing.T) {
	h := start(t)
	refuse := func(reason, want string, change func(*fleetv1alpha1.ControlPlane)) {
		t.Helper()
		cp := &fleetv1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
		cp.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{}
		change(cp)
		if err := h.admin.Create(t.Context(), cp); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", reason, err, want)
		}
	}
	refuse("a long name", "at most 47 characters", func(cp *fleetv1alpha1.ControlPlane) { cp.Name = strings.Repeat("a", 48) })
	refuse("a name that no Service may have", "begins with a letter", func(cp *fleetv1alpha1.ControlPlane) { cp.Name = "1hub" })
	refuse("two etcds", "exactly one of managed and external", func(cp *fleetv1alpha1.ControlPlane) {
		cp.Spec.Etcd.External = etcdAt("https://etcd.example.com:2379", "/registry")
	})
	refuse("no size", "quantity", func(cp *fleetv1alpha1.ControlPlane) { cp.Spec.Etcd.Managed.Storage.Size = "much" })
	refuse("no version", "such as v1.36.3", func(cp *fleetv1alpha1.ControlPlane) { cp.Spec.Version = "latest" })
	refuse("a name with a port", "without ports", func(cp *fleetv1alpha1.ControlPlane) { cp.Spec.Service.ExternalNames = []string{"a:6443"} })
	refuse("two members", "Unsupported value", func(cp *fleetv1alpha1.ControlPlane) { cp.Spec.Etcd.Managed.Replicas = 2 })
	refuse("an etcd without TLS", "endpoints have to be URLs such as https://", func(cp *fleetv1alpha1.ControlPlane) {
		cp.Spec.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: etcdAt("http://etcd.example.com:2379", "/registry")}
	})
	refuse("a prefix that is no path", "has to be a path such as /registry", func(cp *fleetv1alpha1.ControlPlane) {
		cp.Spec.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: etcdAt("https://etcd.example.com:2379", "registry/")}
	})
	refuse("an authority of somebody else", "rotation.etcdAuthority needs a managed etcd", func(cp *fleetv1alpha1.ControlPlane) {
		cp.Spec.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: etcdAt("https://etcd.example.com:2379", "/registry")}
		cp.Spec.Rotation.EtcdAuthority = "1"
	})
	refuse("a period that is none", "spec.rotation.clientAuthorityGrace", func(cp *fleetv1alpha1.ControlPlane) {
		cp.Spec.Rotation.ClientAuthorityGrace = &metav1.Duration{Duration: -time.Second}
	})
	refuse("a port that no node opens", "nodePort needs type NodePort or LoadBalancer", func(cp *fleetv1alpha1.ControlPlane) { cp.Spec.Service.NodePort = 30443 })
	refuse("an address instead of a range", "has to be a range of addresses", func(cp *fleetv1alpha1.ControlPlane) {
		cp.Spec.NetworkPolicies.Egress = []fleetv1alpha1.ControlPlaneEgress{{CIDR: "192.0.2.10", Port: 443}}
	})

	h.plane()
	change := func(reason, want string, change func(*fleetv1alpha1.ControlPlaneSpec)) {
		t.Helper()
		cp := h.get()
		change(&cp.Spec)
		if err := h.admin.Update(t.Context(), cp); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", reason, err, want)
		}
	}
	change("other members", "number of members cannot be changed", func(s *fleetv1alpha1.ControlPlaneSpec) { s.Etcd.Managed.Replicas = 3 })
	change("another etcd", "cannot become an external one", func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: etcdAt("https://etcd.example.com:2379", "/registry")}
	})
	change("other storage", "storage of members that exist", func(s *fleetv1alpha1.ControlPlaneSpec) { s.Etcd.Managed.Storage.ClassName = ptr.To("fast") })

	h.remove(h.get())
	h.plane(func(s *fleetv1alpha1.ControlPlaneSpec) {
		s.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: etcdAt("https://etcd.example.com:2379", "/registry")}
	})
	change("another prefix", "the prefix cannot be changed", func(s *fleetv1alpha1.ControlPlaneSpec) { s.Etcd.External.Prefix = "/other" })
}

// etcdAt is an external etcd.
func etcdAt(endpoint, prefix string) *fleetv1alpha1.ControlPlaneExternalEtcd {
	return &fleetv1alpha1.ControlPlaneExternalEtcd{
		Endpoints: []string{endpoint}, SecretRef: fleetv1alpha1.SecretReference{Name: "credential"}, Prefix: prefix,
	}
}
