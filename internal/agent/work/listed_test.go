// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eavesdropper notes what the record lists at the moment at which the hub is
// told first that the work is applied.
type eavesdropper struct {
	s *scene

	mu     sync.Mutex
	listed []string // nil until then
}

func (e *eavesdropper) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if err := e.hear(request); err != nil {
			return nil, err
		}
		return rt.RoundTrip(request)
	})
}

func (e *eavesdropper) hear(request *http.Request) error {
	if request.Method != http.MethodPatch || !strings.HasSuffix(request.URL.Path, "/manifestworks/w/status") {
		return nil
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte(`"AppliedManifestWorkComplete"`)) {
		return nil
	}
	return e.note()
}

func (e *eavesdropper) note() error {
	records, err := e.s.records()
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listed != nil {
		return nil
	}
	e.listed = []string{}
	for _, record := range records {
		for _, r := range record.Status.AppliedResources {
			e.listed = append(e.listed, fmt.Sprintf("%s/%s/%s %s", r.Group, r.Version, r.Resource, r.Name))
		}
	}
	return nil
}

// TestTheRecordListsAllBeforeTheHubHearsOfIt reads the list of a record when the work is reported as applied,
// as clients do that want to know what there is.
func TestTheRecordListsAllBeforeTheHubHearsOfIt(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	ear := &eavesdropper{s: s}
	s.start(agentOptions{wrap: ear.wrap, part: PartOptions{ListDelay: DefaultListDelay}})
	role := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":%q}}`
	scaler := `{"apiVersion":"autoscaling/%s","kind":"HorizontalPodAutoscaler","metadata":{"name":"%s","namespace":%q},` +
		`"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`
	s.create(s.work("w", fmt.Sprintf(role, s.ns()), fmt.Sprintf(scaler, "v2", "a", s.ns()), fmt.Sprintf(scaler, "v1", "b", s.ns()),
		s.configMap("c", "1"), s.configMap("a", "1"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b","namespace":%q}}`, s.ns())))
	s.condition("w", "Applied", metav1.ConditionTrue)
	want := []string{
		"/v1/configmaps a", "/v1/configmaps c", "/v1/secrets b",
		"autoscaling/v1/horizontalpodautoscalers b", "autoscaling/v2/horizontalpodautoscalers a",
		"rbac.authorization.k8s.io/v1/roles r",
	}
	if diff := cmp.Diff(want, ear.listed); diff != "" {
		t.Errorf("(-want +listed when the hub heard that it is applied)\n%s", diff)
	}
}
