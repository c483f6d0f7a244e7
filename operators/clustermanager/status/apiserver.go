// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// AggregatedAPI is what a walk found out about the aggregated API of a hub.
type AggregatedAPI struct {
	// Wanted says that its gate is on.
	Wanted bool
	// Forbidden says that the operator may not install it, Unaddressed that nobody
	// told where the hub reaches it.
	Forbidden, Unaddressed bool
	// Services are its APIServices; nil until they were looked at.
	Services []APIService
}

// APIService is what an API server says of an API that another program serves.
type APIService struct {
	Name string
	// Foreign says who serves it instead; empty if nobody does.
	Foreign string
	// Available says that it answers; if it does not, Trouble says why.
	Available bool
	Trouble   string
}

// APIServerCondition says why the aggregated API is not available. There is nothing to say
// if it is not wanted, and nothing is known before its APIServices were looked at.
func APIServerCondition(api AggregatedAPI, rollouts []ComponentRollout) (condition metav1.Condition, known bool) {
	condition = degradedCondition(rollouts, metav1.Condition{
		Type:   operatorv1.ClusterManagerConditionHubAPIServerDegraded,
		Reason: operatorv1.ClusterManagerReasonAPIServerFunctional, Message: "the Cluster API is available",
	}, operatorv1.ClusterManagerReasonUnavailableAPIServerPod)
	tell := func(reason, format string, args ...any) (metav1.Condition, bool) {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, reason, fmt.Sprintf(format, args...)
		return condition, true
	}
	switch {
	case !api.Wanted:
		return metav1.Condition{}, false
	case api.Forbidden:
		return tell(operatorv1.ClusterManagerReasonAPIServerNotPermitted,
			"the operator lacks permissions to install the aggregated API server; condition %s has them", operatorv1.ClusterManagerConditionFeaturesLimited)
	case api.Unaddressed:
		return tell(operatorv1.ClusterManagerReasonAPIServerAddressMissing,
			"the hub's API server needs a host name or IPv4 address at which it reaches the aggregated API server on port 443; set annotation %s to it",
			operatorv1.AnnotationAPIServerAddress)
	case condition.Status == metav1.ConditionTrue:
		return condition, true
	}
	for _, service := range api.Services {
		switch {
		case service.Foreign != "":
			return tell(operatorv1.ClusterManagerReasonAPIServiceTaken,
				"APIService %q belongs to %s and is left as it is; remove it, or turn the feature gate AggregatedAPI off", service.Name, service.Foreign)
		case !service.Available:
			return tell(operatorv1.ClusterManagerReasonAPIServiceUnavailable, "APIService %q is not available: %s", service.Name, service.Trouble)
		}
	}
	return condition, len(api.Services) > 0
}
