// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/aggregated"
)

// send sends a request and returns the code and the text of the answer.
func send(t testing.TB, to *rest.Config, method, path, media, body string) (code int, answer string) {
	t.Helper()
	c, err := rest.HTTPClientFor(to)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(to.Host, "/")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", media)
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestBodiesThatAreCostlyToDecodeAreRefused sends YAML, as "kubectl apply --server-side" does and others may, and bodies that
// are costly to decode, by way of the hub.
func TestBodiesThatAreCostlyToDecodeAreRefused(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	clusters := "/apis/" + v1alpha1.GroupVersion.String() + "/clusters"
	document := func(name, spec string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: Cluster\nmetadata: {name: %s}\nspec: {syncMode: Pull, %s}\n", v1alpha1.GroupVersion, name, spec)
	}
	grades := func(amount string) string {
		return `"resourceModels":[{"grade":0,"ranges":[{"name":"cpu","min":"0","max":"` + amount + `"}]},{"grade":1,"ranges":[{"name":"cpu","min":"` + amount + `","max":"9223372036854775807"}]}]`
	}
	const (
		yaml, apply                 = "application/yaml", "application/apply-patch+yaml"
		merge, jsonPatch, strategic = "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json"
		costly                      = "1e-2000000000"
	)
	one := clusters + "/yaml2"
	aliases := "provider: &p " + strings.Repeat("x", 1000) + ", zones: [" + strings.Repeat("*p,", 1000) + "]"
	copied := `[{"op":"add","path":"/metadata/annotations","value":{"amount":"` + costly + `"}},` +
		`{"op":"copy","from":"/metadata/annotations/amount","path":"/spec/resourceModels/0/ranges/0/max"}]`
	for _, c := range []struct {
		name, method, path, media, body string
		want                            int
	}{
		{"it is created", http.MethodPost, clusters, yaml, document("yaml", "provider: '*'"), http.StatusCreated},
		{"it is applied", http.MethodPatch, one + "?fieldManager=test", apply, document("yaml2", "provider: acme"), http.StatusCreated},
		{"it is applied again", http.MethodPatch, one + "?fieldManager=test", apply, document("yaml2", grades("2")), http.StatusOK},
		{"it is created with aliases", http.MethodPost, clusters, yaml, document("yaml3", aliases), http.StatusBadRequest},
		{"it is applied with aliases", http.MethodPatch, one + "?fieldManager=test", apply, document("yaml2", aliases), http.StatusBadRequest},
		{"it is deleted with aliases", http.MethodDelete, one, yaml, "kind: DeleteOptions\napiVersion: v1\ndryRun: [&a All, *a]", http.StatusBadRequest},
		{"it is too long", http.MethodPost, clusters, yaml, document("yaml3", "provider: a") + strings.Repeat("#", 256<<10), http.StatusRequestEntityTooLarge},
		{"it is created with a costly quantity", http.MethodPost, clusters, yaml, document("yaml3", grades(costly)), http.StatusBadRequest},
		{"it is applied with one", http.MethodPatch, one + "?fieldManager=test", apply, document("yaml2", grades(costly)), http.StatusBadRequest},
		{"it is merged with one", http.MethodPatch, one, merge, `{"spec":{` + grades(costly) + `}}`, http.StatusBadRequest},
		{"it is merged strategically with one", http.MethodPatch, one, strategic, `{"spec":{` + grades(costly) + `}}`, http.StatusBadRequest},
		{"it is patched with one", http.MethodPatch, one, jsonPatch, copied, http.StatusUnprocessableEntity},
		{"it is patched with another", http.MethodPatch, one, jsonPatch, strings.ReplaceAll(copied, costly, "2"), http.StatusOK},
		{"it is merged with another", http.MethodPatch, one, merge, `{"spec":{` + grades("3") + `}}`, http.StatusOK},
	} {
		got, answer := send(t, h.AdminConfig, c.method, c.path, c.media, c.body)
		if got != c.want {
			t.Errorf("%s: %d, want %d: %s", c.name, got, c.want, answer)
		}
	}
}

// TestOnlyProbesNeedNoCredential asks the server without the hub in between and without a credential, which
// only probes do.
func TestOnlyProbesNeedNoCredential(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	config := rest.AnonymousClientConfig(h.AdminConfig)
	config.Host, config.TLSClientConfig = fmt.Sprintf("https://localhost:%d", h.Port), rest.TLSClientConfig{CAData: h.CA.Pem}
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/livez": http.StatusOK, "/readyz": http.StatusOK,
		"/": http.StatusUnauthorized, "/apis": http.StatusUnauthorized, "/openapi/v2": http.StatusUnauthorized, "/metrics": http.StatusUnauthorized,
		"/healthz/ping": http.StatusUnauthorized,
		"/apis/" + v1alpha1.GroupVersion.String():               http.StatusUnauthorized,
		"/apis/" + v1alpha1.GroupVersion.String() + "/clusters": http.StatusUnauthorized,
	} {
		if got, _ := send(t, config, http.MethodGet, path, "", ""); got != want {
			t.Errorf("%s without a credential: %d, want %d", path, got, want)
		}
	}
	// Users who are anonymous on the hub are anonymous here, too, and may be allowed things.
	hubs := rest.AnonymousClientConfig(h.AdminConfig)
	if got, _ := send(t, hubs, http.MethodGet, "/apis/"+v1alpha1.GroupVersion.String()+"/clusters", "", ""); got != http.StatusForbidden {
		t.Errorf("without a credential by way of the hub: %d, want %d", got, http.StatusForbidden)
	}
}

// TestConnectionsThatAreTooManyEnd holds more connections to the server than it takes, as any pod of the
// network can. A watch of the same address, which has no end of its own, ends for them, and
// what the hub sends is answered.
func TestConnectionsThatAreTooManyEnd(t *testing.T) {
	h := clusterHubs.ShareFixture(t)
	address := fmt.Sprintf("localhost:%d", h.Port)
	watch := h.WatchDirectly(t, "https://"+address)
	for range 300 {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, watch)
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(aggregated.Patience):
		t.Error("the oldest connection goes on")
	}
	aggregated.Eventually(t, "Clusters are listed", func(ctx context.Context) error { return h.List(ctx, &v1alpha1.ClusterList{}) })
}
