// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// propagationController is there only with the gate Propagation. It is our own
// image whatever the spec says: nobody else has it.
func propagationController(h Hub) HubComponent {
	w := h.baseWorkload("propagation-controller", h.OwnImage)
	w.ServiceAccount = fleetv1alpha1.PropagationServiceAccount
	w.Args = append([]string{"/propagation", "controller"}, append(gateFlags(h.Placement), append(h.allowanceFlags(), h.TLSFlags...)...)...)
	return HubComponent{
		RBAC: config.PropagationController, Role: h.roleName("propagation:controller"), Workload: w, MetricsPort: metricsPort,
		CountsFor: operatorv1.ClusterManagerConditionHubPropagationDegraded,
	}
}

// templatesRole is the ClusterRole by which the propagation controller works with what
// policies select. There are no rules in what is applied: these the controller
// keeps itself.
func templatesRole(h Hub) []render.Object {
	m := h.resourceMeta(fleetv1alpha1.PropagationTemplatesRole).InNamespace("")
	return []render.Object{
		rbacv1ac.ClusterRole(m.Name).WithLabels(m.Labels),
		render.ClusterRoleBinding(m, m.Name, render.AccountSubject(h.Namespace(), fleetv1alpha1.PropagationServiceAccount)),
	}
}
