// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

// asksOthers reports whether other programs serve APIs of the hub, or that is not
// known.
func asksOthers(h *evidence.HubEvidence) bool {
	return h.APIServices.Err != nil || len(aggregatedAPIServices(h)) > 0
}

// aggregatedAPIServices returns the APIServices of APIs that other programs serve.
func aggregatedAPIServices(h *evidence.HubEvidence) []unstructured.Unstructured {
	var others []unstructured.Unstructured
	if h.APIServices.Found {
		for _, api := range h.APIServices.Value.Items {
			if _, found, _ := unstructured.NestedMap(api.Object, "spec", "service"); found {
				others = append(others, api)
			}
		}
	}
	return others
}

// hubAPIs says which of these programs do not answer. That is not only trouble
// for who uses their APIs: Kubernetes does not finish the deletion of any
// namespace before it knows that nothing of any API is left in it.
func hubAPIs(e *evidence.Evidence) []Finding {
	if e.Hub.APIServices.Err != nil {
		return []Finding{unseenFinding("the APIServices", e.Hub.APIServices.Err)}
	}
	var found []Finding
	for _, api := range aggregatedAPIServices(e.Hub) {
		trouble := unavailableReason(api)
		if trouble == "" {
			continue
		}
		object := "APIService " + api.GetName()
		cause := fmt.Sprintf("the API server does not reach the server of this API: %s. Until it does, no namespace is deleted to the end, "+
			"and clients that discover all APIs fail", trouble)
		namespace, _, _ := unstructured.NestedString(api.Object, "spec", "service", "namespace")
		name, _, _ := unstructured.NestedString(api.Object, "spec", "service", "name")
		if api.GetLabels()[operatorv1.LabelCreatedByClusterManager] == "" {
			found = append(found, oddFinding("APIUnavailable", object, cause, fmt.Sprintf(
				"Look at the pods of its Service: kubectl -n %s describe service %s. If its program is gone for good: kubectl delete apiservice %s", namespace, name, api.GetName())))
			continue
		}
		found = append(found, brokenFinding("APIUnavailable", object, cause, fmt.Sprintf(
			"Look at its pods where the hub's components run: kubectl -n %s describe pods -l app=%s. "+
				"If that cannot be fixed soon, turn the feature gate AggregatedAPI of the ClusterManager off: the operator then deletes the APIService.", namespace, name)))
	}
	return found
}

// unavailableReason returns what the API server says of a server that does not answer,
// or nothing.
func unavailableReason(api unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == "Available" && condition["status"] != "True" {
			return fmt.Sprintf("%v: %v", condition["reason"], condition["message"])
		}
	}
	return ""
}
