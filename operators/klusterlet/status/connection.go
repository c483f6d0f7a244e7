// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/probe"
)

// HubConnection says whether the agents have what they need to work with the
// hub. Its reason is a pair, that of the credential to join with and that of the
// hub's own credential, unless the latter works: then the former does not matter.
func HubConnection(bootstrap, hub probe.CheckOutcome) metav1.Condition {
	condition := metav1.Condition{Type: operatorv1.KlusterletConditionHubConnectionDegraded}
	switch {
	case hub.Verdict == probe.Functional:
		condition.Status = metav1.ConditionFalse
		condition.Reason = operatorv1.KlusterletReasonHubConnectionFunctional
		condition.Message = hub.Message
	case hub.Verdict == probe.Unchecked || bootstrap.Verdict == probe.Unchecked:
		condition.Status = metav1.ConditionUnknown
		condition.Reason = operatorv1.JoinReasonChecking
		condition.Message = "checking the connection to the hub"
	default:
		condition.Status = metav1.ConditionTrue
		condition.Reason = bootstrapReason(bootstrap.Verdict) + "," + hubReason(hub.Verdict)
		condition.Message = bootstrap.Message + "\n" + hub.Message
	}
	return condition
}

func bootstrapReason(verdict probe.Verdict) string {
	switch verdict {
	case probe.Functional:
		return operatorv1.KlusterletReasonBootstrapSecretFunctional
	case probe.SecretMissing:
		return operatorv1.KlusterletReasonBootstrapSecretMissing
	case probe.Forbidden:
		return operatorv1.KlusterletReasonBootstrapSecretUnauthorized
	default: // the secret is malformed, or the hub does not answer or not know the credential
		return operatorv1.KlusterletReasonBootstrapSecretError
	}
}

func hubReason(verdict probe.Verdict) string {
	switch verdict {
	case probe.SecretMissing:
		return operatorv1.KlusterletReasonHubKubeConfigSecretMissing
	case probe.KubeconfigMissing:
		return operatorv1.KlusterletReasonHubKubeConfigMissing
	case probe.ClusterNameMissing:
		return operatorv1.KlusterletReasonClusterNameMissing
	case probe.Forbidden:
		return operatorv1.KlusterletReasonHubKubeConfigUnauthorized
	default:
		return operatorv1.KlusterletReasonHubKubeConfigError
	}
}
