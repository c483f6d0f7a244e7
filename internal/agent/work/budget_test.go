// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func jsonBytes(t testing.TB, value any) int {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// wholeBytes fails unless the API server could have taken a larger object.
func (s *scene) wholeBytes(work *workv1.ManifestWork) {
	s.t.Helper()
	if size := jsonBytes(s.t, work); size > 1536<<10 {
		s.t.Errorf("the work has %d bytes", size)
	}
}

func TestStatusOfThousandsOfManifestsIsWrittenShorter(t *testing.T) {
	t.Parallel()
	const manifests = 5000
	s := takeScene(t)
	s.start(agentOptions{})
	work := s.work("tiny")
	texts := make([]string, 0, manifests)
	for i := range manifests { // of a kind that there is not: nothing has to be applied
		texts = append(texts, fmt.Sprintf(`{"apiVersion":"a.b/v1","kind":"K","metadata":{"name":"c%d","namespace":%q}}`, i, s.ns()))
	}
	setManifests(work, texts...)
	s.create(work)
	work = s.condition("tiny", workv1.ManifestWorkConditionApplied, metav1.ConditionFalse)
	s.wholeBytes(work)
	entries := len(work.Status.ResourceStatus.Manifests)
	if entries < 1000 || entries >= manifests {
		t.Errorf("%d manifests have an entry", entries)
	}
	c := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	s.contains(c.Message, "and 4990 more", fmt.Sprintf("status.resourceStatus omits %d of %d manifests", manifests-entries, manifests), "split it")
	s.contains(message(work, 0, "Applied"), "False AppliedManifestFailed: ")
}

// feedbackWork makes n ConfigMaps of the size in bytes on the member, and a work
// that reports their content.
func (s *scene) feedbackWork(name string, n, size int) {
	s.t.Helper()
	work := s.work(name)
	var texts []string
	for i := range n {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: fmt.Sprintf("c%d", i)}}
		cm.Data = map[string]string{"content": strings.Repeat("x", size+i)}
		s.create(cm)
		texts = append(texts, s.configMap(cm.Name, "ours"))
	}
	setManifests(work, texts...)
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: s.ns(), Name: "*"},
		FeedbackRules: []workv1.FeedbackRule{{
			Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "content", Path: ".data.content"}},
		}},
	}}
	s.create(work)
}

func TestStatusWithMegabytesOfFeedbackIsWrittenShorter(t *testing.T) {
	t.Parallel()
	const objects, size, fit = 20, 100_000, 5
	s := takeScene(t)
	s.start(agentOptions{})
	s.feedbackWork("large", objects, size)
	s.condition("large", workv1.ManifestWorkConditionApplied, metav1.ConditionTrue)
	work := s.condition("large", workv1.ManifestWorkConditionStatusFeedbackSynced, metav1.ConditionFalse)
	s.wholeBytes(work)
	for i := range objects {
		values := work.Status.ResourceStatus.Manifests[i].StatusFeedback.Values
		if (len(values) == 1) != (i < fit) {
			t.Errorf("object %d reports %d values; the %d smallest have precedence", i, len(values), fit)
		}
	}
	s.contains(message(work, 0, "StatusFeedbackSynced"), "True StatusFeedbackSynced: ")
	s.contains(message(work, fit, "StatusFeedbackSynced"), "False StatusFeedbackSyncFailed: ", "dropped", "exceed 512 KiB", "split the work")
	s.contains(meta.FindStatusCondition(work.Status.Conditions, "StatusFeedbackSynced").Message, fmt.Sprintf("manifest %d ", fit))

	// The same state again is no change: the transition times stay.
	version := work.ResourceVersion
	smaller := &corev1.ConfigMap{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "c19"}, smaller); err != nil {
		t.Fatal(err)
	}
	smaller.Data["content"] = "small"
	if err := s.client.Update(t.Context(), smaller); err != nil {
		t.Fatal(err)
	}
	s.eventually("the small one is reported", func() error {
		var err error
		if work, err = s.get("large"); err != nil {
			return err
		}
		if values := work.Status.ResourceStatus.Manifests[19].StatusFeedback.Values; len(values) != 1 {
			return fmt.Errorf("%d values after version %s", len(values), version)
		}
		return nil
	})
	s.contains(message(work, fit-1, "StatusFeedbackSynced"), "True StatusFeedbackSynced: ")
	s.contains(message(work, fit, "StatusFeedbackSynced"), "False StatusFeedbackSyncFailed: ")
}

// narrow is a server that takes no status of a kind that has more bytes than it
// says, and answers as the API server does or etcd does through it.
type narrow struct {
	http.RoundTripper
	resource string
	bytes    int
	code     int
	message  string
}

func (n *narrow) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/"+n.resource+"/") || !strings.HasSuffix(request.URL.Path, "/status") {
		return n.RoundTripper.RoundTrip(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	if len(body) <= n.bytes {
		request.Body = io.NopCloser(bytes.NewReader(body))
		return n.RoundTripper.RoundTrip(request)
	}
	reason := metav1.StatusReasonUnknown
	if n.code == http.StatusUnprocessableEntity {
		reason = metav1.StatusReasonInvalid
	}
	answer, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(n.code), Reason: reason, Message: n.message,
	})
	return &http.Response{
		StatusCode: n.code, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)),
	}, err
}

func TestStatusIsWrittenShorterForAHubThatTakesLess(t *testing.T) {
	t.Parallel()
	const objects, size = 10, 10_000
	for _, test := range []struct {
		reason  string
		bytes   int
		code    int
		message string
		entries int
	}{
		{"the API server takes no such body", 60_000, http.StatusRequestEntityTooLarge, "The body is too large", objects},
		{"etcd takes no such request", 60_000, http.StatusInternalServerError, "etcdserver: request is too large", objects},
		{"the client of etcd takes no such request", 2_000, http.StatusInternalServerError, "RPC error: trying to send message larger than max (3187653 vs. 2097152)", 0},
		{"the API server says that something in it is not valid", 60_000, http.StatusUnprocessableEntity, "ManifestWork is invalid: status.resourceStatus: Too long", 0},
	} {
		t.Run(test.reason, func(t *testing.T) {
			s := takeScene(t)
			s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper {
				return &narrow{RoundTripper: rt, resource: "manifestworks", bytes: test.bytes, code: test.code, message: test.message}
			}})
			s.feedbackWork("work", objects, size)
			s.condition("work", workv1.ManifestWorkConditionApplied, metav1.ConditionTrue)
			work := s.condition("work", workv1.ManifestWorkConditionStatusFeedbackSynced, metav1.ConditionFalse)
			if got := len(work.Status.ResourceStatus.Manifests); got != test.entries {
				t.Errorf("%d manifests have an entry, want %d", got, test.entries)
			}
			applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
			if test.entries == 0 {
				s.contains(applied.Message, "omits 10 of 10 manifests", test.message)
			}
		})
	}
}

func TestRecordThatCannotListAllSaysSo(t *testing.T) {
	t.Parallel()
	const objects = 150
	for _, test := range []struct {
		reason string
		verbs  []string // that the agent has for ConfigMaps
		status metav1.ConditionStatus
		says   string
		list   bool
	}{
		{
			"objects that are found without the list", []string{"*"}, metav1.ConditionTrue, "is full and does not list ", true,
		},
		{
			"objects that are not", []string{"get", "create", "patch", "delete"}, metav1.ConditionFalse, "has no room for all objects", false,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			s := takeScene(t)
			user, _ := s.user(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: test.verbs},
				rbacv1.PolicyRule{APIGroups: []string{workv1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}})
			user.QPS = -1 // as agents have it
			s.start(agentOptions{spoke: user, wrap: func(rt http.RoundTripper) http.RoundTripper {
				return &narrow{
					RoundTripper: rt, resource: "appliedmanifestworks", bytes: 17_000,
					code: http.StatusInternalServerError, message: "etcdserver: request is too large",
				}
			}})
			var texts []string
			for i := range objects {
				texts = append(texts, s.configMap(fmt.Sprintf("c%d", i), "ours"))
			}
			s.create(s.work("work", texts...))
			s.eventually("the work says so", func() error {
				work, err := s.get("work")
				if err != nil {
					return err
				}
				c := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
				if c == nil || c.Status != test.status || !strings.Contains(c.Message, test.says) {
					return fmt.Errorf("it says %+v", c)
				}
				return nil
			})
			if test.list {
				s.eventually("the others are listed", func() error {
					records := &workv1.AppliedManifestWorkList{}
					if err := s.client.List(t.Context(), records); err != nil {
						return err
					}
					for i := range records.Items {
						if r := &records.Items[i]; r.Spec.AgentID == "agent-of-"+s.cluster && len(r.Status.AppliedResources) > objects/3 {
							return nil
						}
					}
					return fmt.Errorf("they are not")
				})
			}
			if !test.list {
				s.change("work", func(work *workv1.ManifestWork) { setManifests(work, append(texts, s.configMap("late", "ours"))...) })
				s.eventually("what could not be listed is not applied", func() error {
					work, err := s.get("work")
					if err == nil && !strings.Contains(message(work, objects, "Applied"), "has no room to list it") {
						err = fmt.Errorf("it says %q", message(work, objects, "Applied"))
					}
					return err
				})
				s.hasNot("late")
			}
			s.delete("work")
			s.gone("work")
			s.nothingLeft()
		})
	}
}
