// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// version ends the names of fences. Whoever changes what they say has to change
// it, too: operators that run already cannot change theirs.
const version = "v1"

// grantPrefix begins the names of the roles and bindings that a hub makes for
// its clusters, in their namespaces.
const grantPrefix = "open-cluster-management:managedcluster:"

// FencedOperator is whom a fence is for.
type FencedOperator struct {
	// name of the operator's ServiceAccount, and namespace that it runs in.
	name, namespace string
	// namespaces that it writes into whatever their labels are.
	namespaces []string
	// account is a CEL expression that reports whether pods may run as the
	// ServiceAccount that the variable has. Empty is none: pods have no token.
	account string
	// workloads are the resources of group apps that it runs pods by, and further
	// others that it writes besides those that all operators do.
	workloads []string
	further   []furtherResources
	// exceptions are CEL expressions for what it writes elsewhere.
	exceptions []string
}

// furtherResources are resources of a group.
type furtherResources struct {
	group     string
	resources []string
}

// ClusterManagerOperator is the operator of hubs that runs in the namespace.
func ClusterManagerOperator(namespace string) FencedOperator {
	return FencedOperator{
		name: "cluster-manager", namespace: namespace,
		namespaces: []string{namespace, operatorv1.DefaultHubNamespace}, workloads: []string{"deployments"},
		account: "account in " + celStringList("registration-controller-sa", "registration-webhook-sa", "work-webhook-sa",
			"work-controller-sa", "placement-controller-sa", "propagation-controller-sa", "apiserver-sa", "push-agent-sa"),
		exceptions: []string{
			// What bootstrap identities may read.
			fmt.Sprintf("request.namespace == %s && %s && variables.subject.metadata.name.startsWith(%s)",
				celQuote(metav1.NamespacePublic), celResourceIn("roles", "rolebindings"), celQuote(operatorv1.BootstrapClusterRole)),
			// What a hub that is removed leaves behind in the namespaces of clusters.
			fmt.Sprintf("%s && request.operation != 'CREATE' && variables.subject.metadata.name.startsWith(%s) && "+
				"(request.operation == 'DELETE' || has(object.subjects) == has(oldObject.subjects) && (!has(object.subjects) || object.subjects == oldObject.subjects))",
				celResourceIn("rolebindings"), celQuote(grantPrefix)),
		},
	}
}

// KlusterletOperator is the operator of members that runs in the namespace.
func KlusterletOperator(namespace string) FencedOperator {
	return FencedOperator{
		name: "klusterlet", namespace: namespace,
		namespaces: []string{namespace, operatorv1.DefaultAgentNamespace, operatorv1.DefaultAddOnNamespace}, workloads: []string{"deployments"},
		account: "account.endsWith('-registration-sa') || account.endsWith('-work-sa')",
		exceptions: []string{
			// Copies of the pull secret, where a user wants them.
			fmt.Sprintf("%s && variables.subject.metadata.name == %s && %s", celResourceIn("secrets"),
				celQuote(operatorv1.ImagePullSecret), celHasLabel("namespaceObject", operatorv1.LabelAddOnNamespace, "true")),
		},
	}
}

// ControlPlaneOperator is the operator of dedicated hubs that runs in the namespace. It
// has none of its own: users give it those of ControlPlanes.
func ControlPlaneOperator(namespace string) FencedOperator {
	return FencedOperator{
		name: "control-plane", namespace: namespace, workloads: []string{"deployments", "statefulsets"},
		further: []furtherResources{{"", []string{"persistentvolumeclaims"}}, {"policy", []string{"poddisruptionbudgets"}}},
		exceptions: []string{
			// The kubeconfig, where the hosted hub reads it.
			fmt.Sprintf("%s && variables.subject.metadata.name == %s", celResourceIn("secrets"), celQuote(operatorv1.ExternalHubKubeConfigSecret)),
		},
	}
}

// FenceName is the name of the fence and of its binding.
func (o FencedOperator) FenceName() string { return "capstan-fence-" + o.name + "-" + version }

func (o FencedOperator) serviceAccountUser() string {
	return "system:serviceaccount:" + o.namespace + ":" + o.name
}

// celResourceIn is the CEL expression for a request that writes one of them.
func celResourceIn(names ...string) string {
	return "request.resource.resource in " + celStringList(names...)
}

// celHasLabel is the CEL expression for an object that has the label.
func celHasLabel(object, key, value string) string {
	return fmt.Sprintf("(has(%[1]s.metadata.labels) && %[2]s in %[1]s.metadata.labels && %[1]s.metadata.labels[%[2]s] == %[3]s)",
		object, celQuote(key), celQuote(value))
}

// celLabelUnchanged is the CEL expression for an update that leaves a label as it was.
func celLabelUnchanged(key string) string {
	value := func(object string) string {
		return fmt.Sprintf("(has(%[1]s.metadata.labels) && %[2]s in %[1]s.metadata.labels ? %[1]s.metadata.labels[%[2]s] : '')", object, celQuote(key))
	}
	return value("object") + " == " + value("oldObject")
}

func celStringList(values ...string) string {
	quoted := make([]string, 0, len(values))
	for _, value := range values {
		quoted = append(quoted, celQuote(value))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// celQuote returns a string of CEL. What is quoted here are names of Kubernetes'
// objects and labels, which have no quotes in them.
func celQuote(value string) string { return "'" + value + "'" }
