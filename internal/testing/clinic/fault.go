// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clinic

import (
	"encoding/pem"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// Fault is something that is broken in a clinic.
type Fault struct {
	// Title is what the page calls it.
	Title string
	// Cluster is the patient; default is the one with an agent of its own. everything
	// is for what is no cluster's.
	Cluster    string
	everything bool
	// Plant breaks it.
	Plant func(*testing.T, *Clinic)
	// step and reason are what the doctor has to find as the root.
	step, reason string
}

// AllFaults are the faults, in the order of the page.
func AllFaults() []Fault {
	return slices.Concat(faultsOfTheHub(), faultsOfJoining(), faultsOfRequests(), faultsOfLife(), faultsOfWorks(), faultsOfPlacing())
}

func faultsOfTheHub() []Fault {
	return []Fault{
		{
			Title: "The hub does not run", step: "hub/api", reason: "HubUnreachable",
			Plant: func(t *testing.T, c *Clinic) { c.elsewhere(t, "https://"+ClosedPort(t)) },
		},
		{
			Title: "The cluster is no hub", step: "hub/kinds", reason: "NoHub",
			Plant: func(t *testing.T, c *Clinic) { c.elsewhere(t, someCluster(t)) },
		},
		{
			Title: "The operator of the hub crashes", step: "hub/operator", reason: "PodsNotRunning",
			Plant: func(t *testing.T, c *Clinic) {
				c.breaks(t, operatorv1.DefaultOperatorNamespace, "cluster-manager", "CrashLoopBackOff", "unknown flag: --gates")
			},
		},
		{
			Title: "A pod of the webhooks cannot start", step: "hub/components", reason: "PodsNotRunning",
			Plant: func(t *testing.T, c *Clinic) {
				c.breaks(t, operatorv1.DefaultHubNamespace, "cluster-manager-registration-webhook", "ImagePullBackOff", "")
			},
		},
		{
			Title: "The hub does not trust its webhooks", step: "hub/webhooks", reason: "WebhookUntrusted",
			Plant: func(t *testing.T, c *Clinic) {
				change(t, c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "managedclusters"}}, func(w *admissionv1.ValidatingWebhookConfiguration) {
					w.Webhooks[0].ClientConfig.CABundle = c.AdminConfig.CAData
				})
			},
		},
		{
			Title: "The webhooks do not answer", step: "hub/webhooks", reason: "WebhookSilent",
			Plant: func(t *testing.T, c *Clinic) {
				change(t, c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "manifestworks"}}, func(w *admissionv1.ValidatingWebhookConfiguration) {
					w.Webhooks[0].ClientConfig.URL = ptr.To("https://" + ClosedPort(t))
				})
			},
		},
		{
			Title: "The server of an aggregated API is down", step: "hub/apis", reason: "APIUnavailable",
			Plant: func(t *testing.T, c *Clinic) { c.until(t, unservedAPI()) },
		},
		{
			Title: "Nobody may ask to join", step: "hub/bootstrap", reason: "BootstrapRightsMissing",
			Plant: func(t *testing.T, c *Clinic) {
				c.remove(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: operatorv1.BootstrapClusterRole}})
			},
		},
		{
			Title: "Nobody signs certificates", step: "hub/signer", reason: "SignerSilent",
			Plant: func(t *testing.T, c *Clinic) {
				c.unjoin(t)
				c.ask(t)
				c.decide(t, certificatesv1.CertificateApproved)
			},
		},
	}
}

func faultsOfJoining() []Fault {
	bootstrap := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: operatorv1.BootstrapHubKubeConfigSecret}}
	return []Fault{
		{
			Title: "The same cluster has joined under another name", step: "cluster/identity", reason: "AlreadyJoined",
			Plant: func(t *testing.T, c *Clinic) {
				mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: patient}}
				change(t, c, mc, func(*clusterv1.ManagedCluster) {})
				c.PutObject(t, &clusterv1.ManagedCluster{
					ObjectMeta: metav1.ObjectMeta{Name: "first", Annotations: mc.Annotations}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
				})
			},
		},
		{
			Title: "The bootstrap token has expired or was deleted", step: "member/bootstrap", reason: operatorv1.JoinReasonBootstrapUnauthorized,
			Plant: func(t *testing.T, c *Clinic) {
				c.unjoin(t)
				c.remove(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}})
			},
		},
		{
			Title: "The bootstrap kubeconfig has the wrong CA", step: "member/bootstrap", reason: operatorv1.JoinReasonHubCertificateUntrusted,
			Plant: func(t *testing.T, c *Clinic) {
				c.unjoin(t)
				change(t, c, bootstrap.DeepCopy(), func(s *corev1.Secret) {
					s.Data["kubeconfig"] = c.kubeconfigFor(t, &clientcmdapi.AuthInfo{Token: bootstrapToken}, func(k *clientcmdapi.Config) {
						k.Clusters["hub"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.webhooks.Certificate().Raw})
					})
				})
			},
		},
		{
			Title: "The bootstrap kubeconfig has a wrong address", step: "member/bootstrap", reason: operatorv1.JoinReasonHubUnreachable,
			Plant: func(t *testing.T, c *Clinic) {
				c.unjoin(t)
				change(t, c, bootstrap.DeepCopy(), func(s *corev1.Secret) {
					s.Data["kubeconfig"] = c.kubeconfigFor(t, &clientcmdapi.AuthInfo{Token: bootstrapToken}, func(k *clientcmdapi.Config) {
						k.Clusters["hub"].Server = "https://" + ClosedPort(t)
					})
				})
			},
		},
		{
			Title: "There is no bootstrap kubeconfig", step: "member/bootstrap", reason: operatorv1.JoinReasonBootstrapSecretMissing,
			Plant: func(t *testing.T, c *Clinic) {
				c.unjoin(t)
				c.remove(t, bootstrap.DeepCopy())
			},
		},
		{
			Title: "The image of the agent cannot be pulled", step: "member/agents", reason: "PodsNotRunning",
			Plant: func(t *testing.T, c *Clinic) {
				c.breaks(t, agentNamespace, "klusterlet-registration-agent", "ImagePullBackOff", "")
			},
		},
		{
			Title: "The agent lacks its permissions in the member", step: "member/rights", reason: "AgentRightsMissing",
			Plant: func(t *testing.T, c *Clinic) {
				c.remove(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:klusterlet-work:agent"}})
			},
		},
	}
}

func faultsOfRequests() []Fault {
	return []Fault{
		{
			Title: "The certificate request is waiting for approval", step: "cluster/requests", reason: "RequestPending",
			Plant: func(t *testing.T, c *Clinic) {
				c.unjoin(t)
				c.ask(t)
			},
		},
		{
			Title: "The certificate request was denied", step: "cluster/requests", reason: "RequestDenied",
			Plant: func(t *testing.T, c *Clinic) {
				c.unjoin(t)
				c.ask(t)
				c.decide(t, certificatesv1.CertificateDenied)
			},
		},
		{
			Title: "Nobody has accepted the cluster", step: "cluster/accepted", reason: "WaitingForAcceptance",
			Plant: func(t *testing.T, c *Clinic) {
				c.changePatient(t, func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient, mc.Status.Conditions = false, nil })
				c.ask(t)
				c.decide(t, certificatesv1.CertificateApproved, time.Now())
			},
		},
	}
}

func faultsOfLife() []Fault {
	return []Fault{
		{
			Title: "The certificate of the agent has expired", step: "member/credential", reason: "HubCertificateExpired",
			Plant: func(t *testing.T, c *Clinic) {
				certificate, key := expired(t)
				change(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: operatorv1.HubKubeConfigSecret}}, func(s *corev1.Secret) {
					s.Data[operatorv1.TLSCertKey], s.Data[operatorv1.TLSKeyKey] = certificate, key
				})
			},
		},
		{
			Title: "The token for a Push cluster is no longer valid", Cluster: PushPatient, step: "cluster/credential", reason: fleetv1alpha1.ClusterConnectionReasonUnauthorized,
			Plant: func(t *testing.T, c *Clinic) {
				c.connection(t, metav1.Condition{
					Type: fleetv1alpha1.ClusterConnectionConditionCredentialsValid, Reason: fleetv1alpha1.ClusterConnectionReasonUnauthorized,
					Message: "the cluster rejects the token (401); put a new one into the Secret",
				})
			},
		},
		{
			Title: "The address of a Push cluster points into the hub", Cluster: PushPatient, step: "cluster/connection", reason: fleetv1alpha1.ClusterConnectionReasonForbiddenAddress,
			Plant: func(t *testing.T, c *Clinic) {
				c.connection(t, metav1.Condition{
					Type: fleetv1alpha1.ClusterConnectionConditionConnected, Reason: fleetv1alpha1.ClusterConnectionReasonForbiddenAddress,
					Message: "connecting to 127.0.0.1 is forbidden: it is a loopback address",
				})
			},
		},
		{
			Title: "A Push cluster cannot be reached", Cluster: PushPatient, step: "cluster/connection", reason: fleetv1alpha1.ClusterConnectionReasonUnreachable,
			Plant: func(t *testing.T, c *Clinic) {
				c.connection(t, metav1.Condition{
					Type: fleetv1alpha1.ClusterConnectionConditionConnected, Reason: fleetv1alpha1.ClusterConnectionReasonUnreachable,
					Message: "the API server is unreachable: connection refused",
				})
			},
		},
		{
			Title: "The agent's heartbeat has stopped", step: "cluster/heartbeat", reason: "HeartbeatStopped",
			Plant: func(t *testing.T, c *Clinic) {
				change(t, c, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: patient, Name: clusterv1.LeaseName}}, func(l *coordinationv1.Lease) {
					l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
				})
			},
		},
		{
			Title: "The clock of a member is wrong", step: "cluster/clock", reason: clusterv1.ManagedClusterReasonClockOutOfSync,
			Plant: func(t *testing.T, c *Clinic) {
				c.changePatient(t, func(mc *clusterv1.ManagedCluster) {
					meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
						Type: clusterv1.ManagedClusterConditionClockSynced, Status: metav1.ConditionFalse,
						Reason: clusterv1.ManagedClusterReasonClockOutOfSync, Message: "the clocks of the hub and the cluster differ by 5m0s or more",
					})
				})
			},
		},
	}
}

func faultsOfWorks() []Fault {
	return []Fault{
		{
			Title: "The member does not know a kind", step: "cluster/works", reason: workv1.ManifestReasonAppliedManifestFailed,
			Plant: func(t *testing.T, c *Clinic) {
				c.work(t, nil, "the member does not know the kind Database of example.com/v1: install its definition first")
			},
		},
		{
			Title: "The executor of a work lacks a permission", step: "cluster/works", reason: workv1.ManifestReasonAppliedManifestFailed,
			Plant: func(t *testing.T, c *Clinic) {
				c.work(t, &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
					Type: workv1.ExecutorSubjectTypeServiceAccount, ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "shop", Name: "deployer"},
				}}, `databases.example.com "orders" is forbidden: User "system:serviceaccount:shop:deployer" cannot create resource "databases"`)
			},
		},
		{
			Title: "A cluster is waiting to be deleted", step: "cluster/deletion", reason: "Deleting",
			Plant: func(t *testing.T, c *Clinic) {
				c.changePatient(t, func(mc *clusterv1.ManagedCluster) {
					mc.Finalizers = []string{clusterv1.FinalizerAPIResourceCleanup}
					meta.RemoveStatusCondition(&mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
				})
				if err := c.api.Delete(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: patient}}); err != nil {
					t.Fatal(err)
				}
				c.changePatient(t, func(mc *clusterv1.ManagedCluster) {
					meta.RemoveStatusCondition(&mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
					meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
						Type: clusterv1.ManagedClusterConditionDeleting, Status: metav1.ConditionFalse,
						Reason: clusterv1.ManagedClusterReasonDeletingResourceRemaining, Message: "1 manifestworks remaining, 1 of them waiting for their finalizers: hello",
					})
				})
			},
		},
	}
}

func faultsOfPlacing() []Fault {
	return []Fault{
		{
			Title: "A placement chooses no cluster", everything: true, step: "hub/placements", reason: clusterv1beta1.PlacementReasonNoManagedClusterMatched,
			Plant: func(t *testing.T, c *Clinic) {
				c.bind(t)
				c.place(t, "web", clusterv1beta1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}})
			},
		},
		{
			Title: "No cluster set is bound to the namespace of a placement", everything: true, step: "hub/placements",
			reason: clusterv1beta1.PlacementReasonNoManagedClusterSetBindings,
			Plant:  func(t *testing.T, c *Clinic) { c.place(t, "unbound", clusterv1beta1.ClusterSelector{}) },
		},
		{
			Title: "A placement has a mistake", everything: true, step: "hub/placements", reason: clusterv1beta1.PlacementReasonMisconfigured,
			Plant: func(t *testing.T, c *Clinic) {
				c.place(t, "wrong", clusterv1beta1.ClusterSelector{CelSelector: clusterv1beta1.ClusterCelSelector{CelExpressions: []string{"managedCluster.isGood()"}}})
			},
		},
		{
			Title: "A rollout does not progress", everything: true, step: "hub/replicasets", reason: "RolloutNotProgressing",
			Plant: func(t *testing.T, c *Clinic) {
				before := metav1.NewTime(time.Now().Add(-time.Hour))
				condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
					return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 1, LastTransitionTime: before}
				}
				c.replicaSet(t,
					condition(workv1alpha1.ConditionPlacementVerified, metav1.ConditionTrue, workv1alpha1.ReasonAsExpected, "3 clusters are chosen"),
					condition(workv1alpha1.ConditionPlacementRolledOut, metav1.ConditionFalse, workv1alpha1.ReasonProgressing,
						`Placement "web": 1 of 3 clusters have succeeded, 1 wait for others, 1 have failed: member5 (Degraded). The rollout has stopped: 1 clusters have failed, more than maxFailures 0. Change the template, or maxFailures`),
					condition(workv1alpha1.ConditionManifestworkApplied, metav1.ConditionFalse, workv1alpha1.ReasonNotAsExpected, "1 of 2 ManifestWorks are not as expected: member5 (Degraded)"))
			},
		},
		{
			Title: "The placement of a replica set does not exist", everything: true, step: "hub/replicasets", reason: workv1alpha1.ReasonPlacementDecisionNotFound,
			Plant: func(t *testing.T, c *Clinic) {
				c.replicaSet(t, metav1.Condition{
					Type: workv1alpha1.ConditionPlacementVerified, Status: metav1.ConditionFalse, Reason: workv1alpha1.ReasonPlacementDecisionNotFound,
					Message:            `spec.placementRefs[0]: Placement "web" does not exist in this namespace: create it, or remove the reference. No ManifestWork is deleted until then`,
					ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
				})
			},
		},
	}
}
