// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/features"
)

// ClusterAnnotationPrefix is what the keys of clusterAnnotations begin with.
// Others are not set: the agent must not speak for the hub's own annotations.
const ClusterAnnotationPrefix = "agent.open-cluster-management.io"

// singleReplicaStatusSync is how often the only replica of the work agent
// looks again at what it cannot watch.
const singleReplicaStatusSync = "60s"

func registrationArgs(klusterlet *operatorv1.Klusterlet, o AgentOptions) []string {
	args := []string{"/registration", "agent"}
	args = append(args, identityArgs(klusterlet)...)
	args = append(args, gateArgs(o.RegistrationGates)...)
	args = append(args, joinArgs(klusterlet)...)
	args = append(args, electionArgs(o.Replicas)...)
	if c := klusterlet.Spec.RegistrationConfiguration; c != nil {
		args = append(args, limitArgs("", c.KubeAPIQPS, c.KubeAPIBurst)...)
	}
	return args
}

func workArgs(klusterlet *operatorv1.Klusterlet, o AgentOptions) []string {
	args := []string{"/work", "agent"}
	if o.ClusterName != "" {
		args = append(args, "--spoke-cluster-name="+o.ClusterName)
	}
	args = append(args, memberArgs(klusterlet)...)
	args = append(args, sourceArgs(klusterlet)...)
	args = append(args, gateArgs(o.WorkGates)...)
	args = append(args, applyArgs(klusterlet, o.Replicas)...)
	args = append(args, electionArgs(o.Replicas)...)
	if c := klusterlet.Spec.WorkConfiguration; c != nil {
		args = append(args, limitArgs("", c.KubeAPIQPS, c.KubeAPIBurst)...)
	}
	return args
}

func singletonArgs(klusterlet *operatorv1.Klusterlet, o AgentOptions) []string {
	args := []string{"/registration-operator", "agent"}
	args = append(args, identityArgs(klusterlet)...)
	args = append(args, sourceArgs(klusterlet)...)
	args = append(args, gateArgs(o.RegistrationGates)...)
	args = append(args, gateArgs(o.WorkGates)...)
	args = append(args, joinArgs(klusterlet)...)
	args = append(args, applyArgs(klusterlet, o.Replicas)...)
	args = append(args, electionArgs(o.Replicas)...)
	// One client on the member serves both parts: it gets the greater limit.
	var qps, burst int32
	if c := klusterlet.Spec.RegistrationConfiguration; c != nil {
		qps = c.KubeAPIQPS
		burst = c.KubeAPIBurst
	}
	if c := klusterlet.Spec.WorkConfiguration; c != nil {
		qps, burst = max(qps, c.KubeAPIQPS), max(burst, c.KubeAPIBurst)
	}
	return append(args, limitArgs("", qps, burst)...)
}

// identityArgs are the name of the cluster and the credential to join with.
// The name is that of the spec only: an agent without one takes it from its
// secret or makes one up, and must not be rolled by the operator for it.
func identityArgs(klusterlet *operatorv1.Klusterlet) []string {
	var args []string
	if name := klusterlet.Spec.ClusterName; name != "" {
		args = append(args, "--spoke-cluster-name="+name)
	}
	args = append(args, memberArgs(klusterlet)...)
	return append(args, "--bootstrap-kubeconfig="+bootstrapKubeconfig)
}

// memberArgs are where the member is if the agents do not run on it.
func memberArgs(klusterlet *operatorv1.Klusterlet) []string {
	if !IsHostedMode(klusterlet) {
		return nil
	}
	return []string{"--spoke-kubeconfig=" + memberKubeconfig}
}

// joinArgs are what the agent tells the hub of its cluster.
func joinArgs(klusterlet *operatorv1.Klusterlet) []string {
	args := externalServerArgs(klusterlet.Spec.ExternalServerURLs)
	c := klusterlet.Spec.RegistrationConfiguration
	if c == nil {
		return args
	}
	if c.ClientCertExpirationSeconds > 0 {
		args = append(args, fmt.Sprintf("--client-cert-expiration-seconds=%d", c.ClientCertExpirationSeconds))
	}
	annotations, _ := ClusterAnnotations(klusterlet)
	if len(annotations) > 0 {
		args = append(args, "--cluster-annotations="+formatFlagPairs(annotations))
	}
	if len(c.ClusterLabels) > 0 {
		args = append(args, "--cluster-labels="+formatFlagPairs(c.ClusterLabels))
	}
	if claims := c.ClusterClaimConfiguration; claims != nil {
		args = append(args, fmt.Sprintf("--max-custom-cluster-claims=%d", claims.MaxCustomClusterClaims))
		if len(claims.ReservedClusterClaimSuffixes) > 0 {
			args = append(args, "--reserved-cluster-claim-suffixes="+strings.Join(claims.ReservedClusterClaimSuffixes, ","))
		}
	}
	return append(args, addOnArgs(c.AddOnKubeClientRegistrationDriver)...)
}

// addOnArgs are how add-ons authenticate with the hub.
func addOnArgs(driver *operatorv1.AddOnRegistrationDriver) []string {
	if driver == nil || driver.AuthType == "" {
		return nil
	}
	args := []string{"--addon-kubeclient-registration-auth=" + driver.AuthType}
	if driver.Token != nil && driver.Token.ExpirationSeconds > 0 {
		args = append(args, fmt.Sprintf("--addon-token-expiration-seconds=%d", driver.Token.ExpirationSeconds))
	}
	return args
}

// externalServerArgs are the addresses of the member's API server and, in the
// same order and empty for an address without one, their CA bundles.
func externalServerArgs(servers []operatorv1.ServerURL) []string {
	if len(servers) == 0 {
		return nil
	}
	urls := []string{}
	bundles := []string{}
	anyBundle := false
	for _, server := range servers {
		urls = append(urls, server.URL)
		bundles = append(bundles, base64.StdEncoding.EncodeToString(server.CABundle))
		anyBundle = anyBundle || len(server.CABundle) > 0
	}
	args := []string{"--spoke-external-server-urls=" + strings.Join(urls, ",")}
	if anyBundle {
		args = append(args, "--spoke-external-server-ca-bundles="+strings.Join(bundles, ","))
	}
	return args
}

// ClusterAnnotations returns the annotations that the agent sets on its
// ManagedCluster, and the sorted keys of those that it must not set.
func ClusterAnnotations(klusterlet *operatorv1.Klusterlet) (set map[string]string, refused []string) {
	c := klusterlet.Spec.RegistrationConfiguration
	if c == nil {
		return nil, nil
	}
	set = map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(c.ClusterAnnotations)) {
		if strings.HasPrefix(key, ClusterAnnotationPrefix) {
			set[key] = c.ClusterAnnotations[key]
		} else {
			refused = append(refused, key)
		}
	}
	return set, refused
}

// sourceArgs are whose works the agent applies, and as who.
func sourceArgs(klusterlet *operatorv1.Klusterlet) []string {
	return []string{
		"--workload-source-driver=kube",
		"--workload-source-config=" + hubKubeconfig,
		"--agent-id=" + string(klusterlet.UID),
	}
}

// applyArgs are how the agent applies works.
func applyArgs(klusterlet *operatorv1.Klusterlet, replicas int32) []string {
	var args []string
	c := klusterlet.Spec.WorkConfiguration
	switch {
	case c != nil && c.StatusSyncInterval != nil:
		args = append(args, "--status-sync-interval="+c.StatusSyncInterval.Duration.String())
	case replicas == 1:
		args = append(args, "--status-sync-interval="+singleReplicaStatusSync)
	}
	if c == nil {
		return args
	}
	if c.AppliedManifestWorkEvictionGracePeriod != nil {
		args = append(args, "--appliedmanifestwork-eviction-grace-period="+c.AppliedManifestWorkEvictionGracePeriod.Duration.String())
	}
	return append(args, limitArgs("hub-", c.HubKubeAPIQPS, c.HubKubeAPIBurst)...)
}

func gateArgs(gates features.GateSet) []string {
	var args []string
	for _, flag := range gates.ChangedFlags() {
		args = append(args, "--feature-gates="+flag)
	}
	return args
}

// electionArgs turn the election off where there is nobody to elect.
func electionArgs(replicas int32) []string {
	if replicas > 1 {
		return nil
	}
	return []string{"--disable-leader-election"}
}

func limitArgs(prefix string, qps, burst int32) []string {
	var args []string
	if qps > 0 {
		args = append(args, "--"+prefix+"kube-api-qps="+strconv.Itoa(int(qps)))
	}
	if burst > 0 {
		args = append(args, "--"+prefix+"kube-api-burst="+strconv.Itoa(int(burst)))
	}
	return args
}

// formatFlagPairs writes the map as the value of a flag: sorted k=v with commas between.
// A pair that has a comma or a quotation mark itself is quoted as in CSV, which
// is how flags of this kind are read.
func formatFlagPairs(values map[string]string) string {
	record := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		record = append(record, key+"="+values[key])
	}
	if len(record) == 1 && strings.Count(record[0], "=") == 1 {
		return record[0] // one pair alone is taken as it is
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	if err := w.Write(record); err != nil { // writing to memory does not fail
		return strings.Join(record, ",")
	}
	w.Flush()
	return strings.TrimSuffix(text.String(), "\n")
}
