// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	manifests "github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/ports"
)

// endpoint is the debug endpoint of a hub with two clusters, "calm" and "busy",
// and a Placement "web" in namespace team-a. Namespace team-b has one, too.
// There are ServiceAccounts in team-a: reader may get Placements there, author
// create them, and stranger nothing.
type endpoint struct {
	testing.TB

	client client.Client
	http   *http.Client
	host   string
	tokens map[string]string
}

// endpoints are one for all tests, with a certificate for the address that it is on.
var endpoints = env.NewFixtures(servers, func(t testing.TB) *endpoint {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../../config/crd"} })
	scheme, err := placement.NewPlacementScheme()
	expect.NoError(t, err)
	expect.NoError(t, clientgoscheme.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	expect.NoError(t, err)
	e := &endpoint{TB: t, client: c, host: fmt.Sprintf("127.0.0.1:%d", ports.FreePort(t)), tokens: map[string]string{}}
	e.populate()
	for name, verb := range map[string]string{"reader": "get", "author": "create", "stranger": ""} { // with Placements of their namespace
		e.tokens[name] = cluster.CreateAccount(t, c, "team-a", name)
		if verb != "" {
			rule := build.AccessRule(clusterv1beta1.GroupName, "placements", verb)
			cluster.CreateObjects(t, c, build.NamespacedRole("team-a", name, rule), build.RoleBinding("team-a", name, name, build.AccountSubject("team-a", name)))
			env.WaitAllowed(t.Context(), t, config, env.ServiceAccountReview("team-a", name), "team-a", rule, true)
		}
	}
	mgr := cluster.NewManager(t, e.asController(config), ctrl.Options{Scheme: scheme})
	dir, roots := certificate(t)
	expect.NoError(t, SetupDebugServer(t.Context(), mgr, ServerOptions{Listen: e.host, CertDir: dir, SetTLS: func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }}))
	e.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}}
	t.Cleanup(e.http.CloseIdleConnections)
	cluster.RunManager(t, mgr)
	return e
})

// endpointOf returns the endpoint as a test uses it.
func endpointOf(t testing.TB) *endpoint {
	t.Helper()
	e := *endpoints.ShareFixture(t)
	e.TB = t
	return &e
}

func TestEndpointAnswersForAPlacement(t *testing.T) {
	e := endpointOf(t)
	want := EvaluationAnswer{
		Placement: &clusterv1beta1.Placement{
			TypeMeta:   metav1.TypeMeta{APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "Placement"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "web", Labels: map[string]string{"app": "web"}},
		},
		Filtered: []Filtered{
			{Name: "Predicate", Clusters: []string{"busy", "calm", "tainted"}},
			{Name: "Predicate,TaintToleration", Clusters: []string{"busy", "calm"}},
		},
		Prioritized: []Prioritized{
			{Name: "Balance", Weight: 1, Scores: map[string]int64{"busy": 100, "calm": 100}},
			{Name: "Steady", Weight: 1, Scores: map[string]int64{"busy": 0, "calm": 0}},
			{Name: "PreferNoSelect", Weight: 1, Scores: map[string]int64{"busy": -100}},
		},
		Aggregated: []ClusterScore{{"calm", 100}, {"busy", 0}},
	}
	status, body := e.ask(http.MethodGet, Path+"team-a/web", e.tokens["reader"], nil)
	got := e.answer(status, body)
	want.Placement.Spec = got.Placement.Spec // with the defaults of the API server
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(body, &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"placement", "filteredPipelineResults", "prioritizeResults", "aggregatedScores"} {
		if keys[key] == nil {
			t.Errorf("the answer has no %s: %s", key, body)
		}
	}
}

// TestEndpointAnswersForAPlacementThatIsNotThere asks what a Placement would choose that is not there: as OCM's clients do,
// with the name in the body, and with the name in the path.
func TestEndpointAnswersForAPlacementThatIsNotThere(t *testing.T) {
	e := endpointOf(t)
	for path, name := range map[string]string{Path: `"namespace": "team-a", "name": "trial"`, Path + "team-a/trial": ""} {
		body := fmt.Sprintf(`{"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {%s},
			"spec": {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}]}}`, name)
		got := e.answer(e.ask(http.MethodPost, path, e.tokens["author"], []byte(body)))
		if got.Placement.Namespace != "team-a" || got.Placement.Name != "trial" || got.Error != "" {
			t.Errorf("POST %s is answered with %+v", path, got)
		}
		if diff := cmp.Diff([]ClusterScore{{"calm", 100}}, got.Aggregated); diff != "" {
			t.Errorf("POST %s (-want +got):\n%s", path, diff)
		}
	}
}

// TestEndpointTellsNothingToWhoMayNotKnow are requests of those who may not know what they ask for. None of the
// answers may tell a cluster, or which Placements there are.
func TestEndpointTellsNothingToWhoMayNotKnow(t *testing.T) {
	e := endpointOf(t)
	named := func(namespace string) []byte {
		return fmt.Appendf(nil, `{"metadata": {"namespace": %q, "name": "web"}}`, namespace)
	}
	cases := map[string]struct {
		method, path, token string
		body                []byte
		want                int
		message             string
	}{
		"no token":                      {path: Path + "team-a/web", want: 401, message: "send the bearer token"},
		"a forged token":                {path: Path + "team-a/web", token: "eyJhbGciOiJub25lIn0.e30.", want: 401, message: "rejects this token"},
		"a token of another right":      {path: Path + "team-a/web", token: "author", want: 403, message: `may not get placements.cluster.open-cluster-management.io "web" in namespace "team-a": bind it`},
		"a token without rights":        {path: Path + "team-a/web", token: "stranger", want: 403, message: "may not get"},
		"another namespace":             {path: Path + "team-b/web", token: "reader", want: 403, message: `in namespace "team-b"`},
		"whether there is one":          {path: Path + "team-b/none", token: "reader", want: 403, message: `in namespace "team-b"`},
		"one that is not there":         {path: Path + "team-a/none", token: "reader", want: 404, message: `no Placement "team-a/none"`},
		"creation, by a reader":         {method: http.MethodPost, path: Path + "team-a/web", token: "reader", body: named("team-a"), want: 403, message: "may not create"},
		"creation in another namespace": {method: http.MethodPost, path: Path, token: "author", body: named("team-b"), want: 403, message: `may not create placements.cluster.open-cluster-management.io in namespace "team-b"`},
		"two namespaces":                {method: http.MethodPost, path: Path + "team-a/web", token: "author", body: named("team-b"), want: 400, message: `the body that of "team-b/web"`},
		"no namespace":                  {method: http.MethodPost, path: Path, token: "author", body: []byte(`{}`), want: 400, message: "metadata.namespace"},
		"a namespace that is a path":    {method: http.MethodPost, path: Path, token: "author", body: named("team-a/../team-b"), want: 400, message: "metadata.namespace"},
		"a step up":                     {path: Path + "team-a/../team-b/web", token: "reader", want: 404, message: "there is nothing here"},
		"an encoded step up":            {path: Path + "team-a/%2e%2e/team-b/web", token: "reader", want: 404, message: "there is nothing here"},
		"an encoded slash":              {path: Path + "team-a%2Fweb%2F..", token: "reader", want: 404, message: "there is nothing here"},
		"an empty part":                 {path: Path + "team-a//web", token: "reader", want: 404, message: "there is nothing here"},
		"no name":                       {path: Path + "team-a/", token: "reader", want: 404, message: "there is nothing here"},
		"all of a namespace":            {path: Path + "team-a/*", token: "reader", want: 404, message: "there is nothing here"},
		"another path":                  {path: "/metrics", token: "reader", want: 404, message: "there is nothing here"},
		"deletion":                      {method: http.MethodDelete, path: Path + "team-a/web", token: "reader", want: 405, message: "use GET"},
		"an update":                     {method: http.MethodPut, path: Path + "team-a/web", token: "author", body: named("team-a"), want: 405, message: "use GET"},
		"a huge body":                   {method: http.MethodPost, path: Path, token: "author", body: bytes.Repeat([]byte("x"), BodyMax+1), want: 413, message: "1048576 bytes"},
		"a body that is no Placement":   {method: http.MethodPost, path: Path, token: "author", body: []byte(`[1, 2]`), want: 400, message: "not a JSON Placement"},
		"endless brackets":              {method: http.MethodPost, path: Path, token: "author", body: bytes.Repeat([]byte("["), BodyMax), want: 400, message: "not a JSON Placement"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			method := tc.method
			if method == "" {
				method = http.MethodGet
			}
			token := tc.token
			if known := e.tokens[token]; known != "" {
				token = known
			}
			status, body := endpointOf(t).ask(method, tc.path, token, tc.body)
			var got EvaluationAnswer
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("got %d %q, which is not JSON: %v", status, body, err)
			}
			if status != tc.want || !strings.Contains(got.Error, tc.message) {
				t.Errorf("got %d %q, want %d %q", status, got.Error, tc.want, tc.message)
			}
			for _, secret := range []string{"calm", "busy", "tainted"} {
				if strings.Contains(string(body), secret) {
					t.Errorf("the answer names cluster %s: %s", secret, body)
				}
			}
		})
	}
}

// TestEndpointTellsMistakesSoon are Placements that the endpoint says what is wrong with, soon.
func TestEndpointTellsMistakesSoon(t *testing.T) {
	e := endpointOf(t)
	ask := func(expressions ...string) EvaluationAnswer {
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "trial"}}
		for _, text := range expressions {
			p.Spec.Predicates = append(p.Spec.Predicates, clusterv1beta1.ClusterPredicate{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				CelSelector: clusterv1beta1.ClusterCelSelector{CelExpressions: []string{text}},
			}})
		}
		body, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return e.answer(e.ask(http.MethodPost, Path, e.tokens["author"], body))
	}
	const at = "spec.predicates[0].requiredClusterSelector.celSelector.celExpressions[0]"
	const many = "CEL expressions of together"
	digits := "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
	costly := strings.Repeat(digits+".all(a, ", 6) + "true" + strings.Repeat(")", 6)
	for name, mistake := range map[string]struct {
		got  EvaluationAnswer
		want string
	}{
		"an unknown function":    {ask("managedCluster.nonsense()"), at},
		"a costly expression":    {ask(costly), at},
		"fifty of them":          {ask(slices.Repeat([]string{costly}, 50)...), at},
		"more than there may be": {ask(slices.Repeat([]string{costly}, 100)...), many},
		"an enormous expression": {ask("'" + strings.Repeat("x", BodyMax/2) + "' == ''"), many},
	} {
		if !strings.Contains(mistake.got.Error, mistake.want) {
			t.Errorf("%s: the error is %.200q, want one with %q", name, mistake.got.Error, mistake.want)
		}
	}
}

// TestEndpointWritesNothing looks at what the tests before have left.
func TestEndpointWritesNothing(t *testing.T) {
	e := endpointOf(t)
	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := e.client.List(t.Context(), decisions); err != nil || len(decisions.Items) > 0 {
		t.Errorf("there are %d PlacementDecisions, %v", len(decisions.Items), err)
	}
	list := &clusterv1beta1.PlacementList{}
	if err := e.client.List(t.Context(), list); err != nil || len(list.Items) != 2 || list.Items[0].Generation+list.Items[1].Generation != 2 {
		t.Errorf("the Placements are %+v, %v", list.Items, err)
	}
}

// answer returns the answer of a request that was granted.
func (e *endpoint) answer(status int, body []byte) EvaluationAnswer {
	e.Helper()
	var got EvaluationAnswer
	if err := json.Unmarshal(body, &got); err != nil || status != http.StatusOK {
		e.Fatalf("got %d %s, %v", status, body, err)
	}
	return got
}

// ask sends the path as it is.
func (e *endpoint) ask(method, path, token string, body []byte) (int, []byte) {
	e.Helper()
	unescaped, err := url.PathUnescape(path)
	expect.NoError(e, err)
	request := (&http.Request{
		Method: method, URL: &url.URL{Scheme: "https", Host: e.host, Path: unescaped, RawPath: path}, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(e.Context())
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := e.http.Do(request)
	expect.NoError(e, err)
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	expect.NoError(e, err)
	return response.StatusCode, answer
}

// asController returns the config of somebody who may do what the placement
// controller may, in whose pods the endpoint is, except for writing anything but
// reviews.
func (e *endpoint) asController(config *rest.Config) *rest.Config {
	e.Helper()
	rules, _, err := manifests.Rules(manifests.PlacementController)
	expect.NoError(e, err)
	for i := range rules {
		if rules[i].APIGroups[0] != authenticationv1.GroupName && rules[i].APIGroups[0] != authorizationv1.GroupName {
			rules[i].Verbs = slices.DeleteFunc(rules[i].Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
		}
	}
	rules = slices.DeleteFunc(rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Verbs) == 0 })
	const name = "placement-debug"
	cluster.CreateObjects(e, e.client, build.ClusterRole(name, rules...), build.ClusterRoleBinding(name, name, build.UserSubject(name)))
	for _, rule := range rules {
		env.WaitAllowed(e.Context(), e.TB, config, env.UserReview(name), "", rule, true)
	}
	return cluster.AsUser(config, name)
}

// populate makes what Placements are about.
func (e *endpoint) populate() {
	e.Helper()
	labelled := map[string]string{"fleet": "yes"}
	prefer := []clusterv1.Taint{{Key: "full", Effect: clusterv1.TaintEffectPreferNoSelect}}
	objects := []client.Object{
		build.Namespace("team-a"), build.Namespace("team-b"),
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "busy", Labels: labelled}, Spec: clusterv1.ManagedClusterSpec{Taints: prefer}},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "calm", Labels: map[string]string{"fleet": "yes", "env": "prod"}}},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		&clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "tainted", Labels: labelled},
			Spec:       clusterv1.ManagedClusterSpec{Taints: []clusterv1.Taint{{Key: "gpu", Effect: clusterv1.TaintEffectNoSelect}}},
		},
		&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
			ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: labelled}},
		}},
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		objects = append(objects,
			&clusterv1beta2.ManagedClusterSetBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "fleet"},
			},
			&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}}})
	}
	cluster.CreateObjects(e, e.client, objects...)
}

// certificate returns a directory with a serving certificate, and who signed it.
func certificate(t testing.TB) (string, *x509.CertPool) {
	t.Helper()
	authority, err := certs.NewAuthority("test", time.Now())
	expect.NoError(t, err)
	pair, err := certs.NewServing(authority, []string{"127.0.0.1"}, time.Now())
	expect.NoError(t, err)
	dir := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, corev1.TLSCertKey), pair.CertPEM, 0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, corev1.TLSPrivateKeyKey), pair.KeyPEM, 0o600))
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate)
	return dir, roots
}
