// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
)

// APIServerAccount is the ServiceAccount of the aggregated API server.
const APIServerAccount = fleetv1alpha1.APIServerServiceAccount

const (
	// apiServerName is the name of the Deployment of the aggregated API server, and of
	// the Service by which the hub's API server reaches it, on every hub.
	apiServerName = "cluster-manager-apiserver"
	// hostedAPIServerService is, in mode Hosted, the Service where the pods run.
	hostedAPIServerService = "cluster-manager-apiserver-hosted"

	apiServerSecurePort  int32 = 8443
	apiServerServicePort int32 = httpsPort

	// apiServerReplicasHosted is how many replicas there are in mode Hosted. While
	// there is none, discovery fails on the hub, and with it each deletion of a
	// namespace.
	apiServerReplicasHosted = 2

	apiServerCertVolume = "serving-cert"

	// apiServicePriority of the group among the groups, and of the version among the
	// versions of its group: after those that a CustomResourceDefinition has (100).
	apiServiceGroupPriority, apiServiceVersionPriority = 1000, 10
)

// aggregatedVersions are the API versions that the aggregated API server serves.
func aggregatedVersions() []schema.GroupVersion {
	return []schema.GroupVersion{
		{Group: "cluster.karmada.io", Version: "v1alpha1"},
		{Group: "work.karmada.io", Version: "v1alpha1"},
	}
}

// AggregatedAPI reports whether the hub has an aggregated API server.
func (h Hub) AggregatedAPI() bool {
	return h.Registration.Enabled(features.AggregatedAPI) && (!h.IsHosted() || h.APIServerAddress != "")
}

// HostedAPIServerAddress is the host name of the aggregated API server for a hub
// whose API server runs on the same cluster as its pods.
func (h Hub) HostedAPIServerAddress() string {
	return hostedAPIServerService + "." + h.Namespace() + ".svc"
}

// apiServerComponent is there only with the gate AggregatedAPI. It is our own image
// whatever the spec says: nobody else has it.
func apiServerComponent(h Hub) HubComponent {
	w := h.baseWorkload("apiserver", h.OwnImage)
	w.Name = apiServerName
	w.App = apiServerName
	w.Args = append([]string{
		"/capstan-apiserver", fmt.Sprintf("--secure-port=%d", apiServerSecurePort),
		"--tls-cert-file=" + webhookCertPath + "/" + corev1.TLSCertKey,
		"--tls-private-key-file=" + webhookCertPath + "/" + corev1.TLSPrivateKeyKey,
		fmt.Sprintf("--max-requests-per-user=%d", h.MaxRequestsPerUser),
	}, h.TLSFlags...)
	w.Resources = h.servingResources()
	w.HealthPort = apiServerSecurePort
	w.HealthScheme = corev1.URISchemeHTTPS
	w.Volumes = append(w.Volumes, render.SecretVolume(apiServerCertVolume, operatorv1.APIServerServingCertSecret, false))
	w.Mounts = append(w.Mounts, render.VolumeMount(apiServerCertVolume, webhookCertPath, true))
	if h.IsHosted() {
		w.Replicas = max(w.Replicas, apiServerReplicasHosted)
	}
	return HubComponent{
		RBAC: config.APIServer, Role: h.roleName("apiserver"), Workload: w, MetricsPort: apiServerSecurePort,
		CountsFor: operatorv1.ClusterManagerConditionHubAPIServerDegraded,
		APIServer: &ComponentServer{
			Service: apiServerName, Secret: operatorv1.APIServerServingCertSecret, Port: apiServerSecurePort,
			ServicePort: apiServerServicePort, Address: h.APIServerAddress,
		},
	}
}

// APIServices returns what leads requests for the Cluster API to the aggregated
// API server. They must not be there while nobody answers: discovery would fail.
func APIServices(h Hub) []render.Object {
	var objects []render.Object
	for _, version := range aggregatedVersions() {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("apiregistration.k8s.io/v1")
		u.SetKind("APIService")
		u.SetName(version.Version + "." + version.Group)
		u.SetLabels(h.resourceMeta("").Labels)
		u.Object["spec"] = map[string]any{
			"group": version.Group, "version": version.Version,
			"groupPriorityMinimum": int64(apiServiceGroupPriority), "versionPriority": int64(apiServiceVersionPriority),
			"service": map[string]any{
				"namespace": h.Namespace(), "name": apiServerName, "port": int64(apiServerServicePort),
			},
			"caBundle": base64.StdEncoding.EncodeToString(h.CABundle),
		}
		objects = append(objects, client.ApplyConfigurationFromUnstructured(u))
	}
	return objects
}

// DisruptionBudgets keep a replica of components that others cannot do without
// for a while.
func DisruptionBudgets(h Hub) []render.Object {
	var objects []render.Object
	for _, c := range HubComponents(h) {
		if c.APIServer == nil || c.Workload.Replicas < 2 {
			continue
		}
		m := h.resourceMeta(c.Workload.Name)
		objects = append(objects, policyv1ac.PodDisruptionBudget(m.Name, m.Namespace).WithLabels(m.Labels).
			WithSpec(policyv1ac.PodDisruptionBudgetSpec().
				WithMaxUnavailable(intstr.FromInt32(1)).
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{render.AppLabel: c.Workload.App}))))
	}
	return objects
}
