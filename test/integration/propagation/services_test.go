// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// service returns a Service of namespace default with a port.
func service(name string, kind corev1.ServiceType, nodePort int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.ServiceSpec{
			Type: kind, Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "web", Port: 80, NodePort: nodePort}},
		},
	}
}

// TestMembersAllocateTheNumbersOfServices takes the numbers that the hub allocates in the
// member before the Services arrive there.
func TestMembersAllocateTheNumbersOfServices(t *testing.T) {
	t.Parallel()
	w := harness.NewWorldOfMembers(t, servers, 1)
	node, written, balancer := service("node", corev1.ServiceTypeNodePort, 0), service("written", corev1.ServiceTypeNodePort, 30111), service("balancer", corev1.ServiceTypeLoadBalancer, 0)
	balancer.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	w.CreateAll(node, written, balancer)
	m := w.Members["member1"]
	for i, taken := range []int32{node.Spec.Ports[0].NodePort, balancer.Spec.Ports[0].NodePort, balancer.Spec.HealthCheckNodePort} {
		if err := m.Create(t.Context(), service(fmt.Sprintf("taken%d", i), corev1.ServiceTypeNodePort, taken)); err != nil {
			t.Fatal(err)
		}
	}
	p := harness.Policy("services", policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors = nil
	for _, name := range []string{"node", "written", "balancer"} {
		p.Spec.ResourceSelectors = append(p.Spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Service", Name: name})
	}
	w.CreateAll(p)
	w.StartControllers()
	at := func(of *corev1.Service) *corev1.Service {
		got := &corev1.Service{}
		w.Eventually(of.Name+" is in the member", func() error { return m.Get(t.Context(), client.ObjectKeyFromObject(of), got) })
		return got
	}
	own := at(node).Spec.Ports[0].NodePort
	if own == node.Spec.Ports[0].NodePort || own == 0 {
		t.Errorf("node has the number %d in the member, and %d on the hub", own, node.Spec.Ports[0].NodePort)
	}
	if got := at(written).Spec.Ports[0].NodePort; got != 30111 {
		t.Errorf("the number of a user became %d", got)
	}
	if got := at(balancer).Spec; got.Ports[0].NodePort == balancer.Spec.Ports[0].NodePort || got.HealthCheckNodePort == balancer.Spec.HealthCheckNodePort {
		t.Errorf("balancer has the numbers of the hub: %+v", got)
	}

	// A change keeps what the member allocated, and a number that the user writes is sent.
	w.ChangeObject(node, func() { node.Spec.Selector = map[string]string{"app": "changed"} })
	w.ChangeObject(balancer, func() { balancer.Spec.Ports[0].NodePort = 30222 })
	w.Eventually("the changes are in the member", func() error {
		if is := at(node).Spec; is.Selector["app"] != "changed" || is.Ports[0].NodePort != own {
			return fmt.Errorf("node is %+v, and was given %d", is, own)
		}
		if is := at(balancer).Spec; is.Ports[0].NodePort != 30222 {
			return fmt.Errorf("balancer is %+v", is)
		}
		return nil
	})
}
