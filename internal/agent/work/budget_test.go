// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// manyConditions returns a status of n manifests, of which every third is
// Complete and every fifth has failed.
func manyConditions(n int, message string) *workv1.ManifestWorkStatus {
	status := &workv1.ManifestWorkStatus{}
	at := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	c := func(name string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: at, ObservedGeneration: 1<<62 + 1,
		}
	}
	for i := range n {
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i), Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "shop", Name: fmt.Sprintf("object-%d", i),
		}}
		applied := c("Applied", metav1.ConditionTrue, "AppliedManifestComplete", "The object is as the manifest says.")
		if i%5 == 0 {
			applied = c("Applied", metav1.ConditionFalse, "AppliedManifestFailed", message)
		}
		m.Conditions = append(m.Conditions, applied, c("Available", metav1.ConditionTrue, "ResourceAvailable", "The object exists on the cluster."))
		if i%3 == 0 {
			m.Conditions = append(m.Conditions, c("Complete", metav1.ConditionTrue, "ConditionRuleEvaluated", "It is done."))
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, m)
	}
	status.Conditions = append(status.Conditions, c("Applied", metav1.ConditionFalse, "AppliedManifestWorkFailed", message))
	return status
}

func jsonBytes(t testing.TB, value any) int {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

func TestSizesAreNotSmallerThanTheJSON(t *testing.T) {
	whole, yes := int64(-1<<63), false
	for reason, text := range map[string]string{
		"plain":         "abc",
		"quotes":        `{"a":"b\\"}` + "\n\t\r\b\f",
		"control":       "\x00\x01\x1f\x7f",
		"html":          "<a&b>",
		"other scripts": "日本語 \u2028\u2029 é",
		"broken":        "\xff\xfe" + "\xe3\x81",
	} {
		t.Run(reason, func(t *testing.T) {
			text := strings.Repeat(text, 50)
			status := manyConditions(20, text)
			status.ResourceStatus.Manifests[3].StatusFeedback.Values = []workv1.FeedbackValue{
				{Name: text, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &text}},
				{Name: "b", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: &text}},
				{Name: "c", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &whole}},
				{Name: "d", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeBoolean, Boolean: &yes}},
			}
			if got, want := statusBytes(status), jsonBytes(t, status); got < want || got > want*5/4 {
				t.Errorf("the status has %d bytes, counted as %d", want, got)
			}
			listed := metaOf(apply.Object{Group: text, Resource: text, Namespace: text, Name: text}, "v1", anyUID)
			if got, want := listedSize(&listed), jsonBytes(t, listed)+1; got < want || got > want*5/4 {
				t.Errorf("the entry has %d bytes, counted as %d", want, got)
			}
		})
	}
}

func TestStatusIsShortenedAsFarAsNeeded(t *testing.T) {
	long := strings.Repeat("The object cannot be applied, and this tells at length why. ", 100)
	for reason, test := range map[string]struct {
		n, room   int
		message   int // bytes at most of those that failed
		left      bool
		failed    bool // all that failed have entries
		completed bool // all that are Complete have entries
	}{
		"what fits stays as it is":                       {n: 100, room: 1 << 20, message: len(long), failed: true, completed: true},
		"long messages are cut":                          {n: 1000, room: 700 << 10, message: 256, failed: true, completed: true},
		"then those that say nothing new":                {n: 1000, room: 620 << 10, message: 96, failed: true, completed: true},
		"then objects that are fine are left out":        {n: 2000, room: 700 << 10, message: 96, left: true, failed: true, completed: true},
		"then those that failed":                         {n: 2000, room: 550 << 10, message: 96, left: true, completed: true},
		"and in the end those that are Complete as well": {n: 2000, room: 64 << 10, message: 96, left: true},
		"up to all": {n: 2000, room: 0, left: true},
	} {
		t.Run(reason, func(t *testing.T) {
			status := manyConditions(test.n, long)
			left := shrink(status, test.room)
			if got := jsonBytes(t, status.ResourceStatus); got > test.room+len(`{"manifests":[]}`) {
				t.Errorf("it has %d bytes, and there is room for %d", got, test.room)
			}
			have := map[int32]bool{}
			last := int32(-1)
			for i := range status.ResourceStatus.Manifests {
				m := &status.ResourceStatus.Manifests[i]
				have[m.ResourceMeta.Ordinal] = true
				if m.ResourceMeta.Ordinal <= last {
					t.Errorf("manifest %d comes after %d", m.ResourceMeta.Ordinal, last)
				}
				last = m.ResourceMeta.Ordinal
				if c := m.Conditions[0]; c.Status == metav1.ConditionFalse && (len(c.Message) > test.message || c.Message == "") {
					t.Errorf("manifest %d has a message of %d bytes, want 1 to %d", last, len(c.Message), test.message)
				}
			}
			if left != test.n-len(have) || (left > 0) != test.left {
				t.Errorf("%d of %d are left out, and it says %d", test.n-len(have), test.n, left)
			}
			failed, completed := true, true
			for i := range int32(test.n) {
				completed = completed && (i%3 != 0 || have[i])
				failed = failed && (i%5 != 0 || have[i])
			}
			if failed != test.failed || completed != test.completed {
				t.Errorf("all that failed: %v, want %v; all that are complete: %v, want %v", failed, test.failed, completed, test.completed)
			}
		})
	}
}

func TestTheSameStateIsShortenedTheSameWay(t *testing.T) {
	one, two := manyConditions(3000, "failed"), manyConditions(3000, "failed")
	shrink(one, 300<<10)
	shrink(two, 300<<10)
	if diff := cmp.Diff(one, two); diff != "" {
		t.Error(diff)
	}
}

func TestAListLeavesOutWhatIsFoundWithoutIt(t *testing.T) {
	var all []workv1.AppliedManifestResourceMeta
	for i := range 3000 {
		resource := "secrets"
		if i%3 == 0 {
			resource = "blinds"
		}
		all = append(all, metaOf(apply.Object{Resource: resource, Namespace: "shop", Name: fmt.Sprintf("object-%04d", i)}, "v1", anyUID))
	}
	needed := func(r *workv1.AppliedManifestResourceMeta) bool { return r.Resource == "blinds" }
	for reason, test := range map[string]struct {
		room       int
		left, lost bool
	}{
		"all fit":                           {room: 8 << 20},
		"all fit, as is found by counting":  {room: 1 << 20},
		"some are found without the list":   {room: 300 << 10, left: true},
		"what needs the list alone is more": {room: 100 << 10, left: true, lost: true},
	} {
		t.Run(reason, func(t *testing.T) {
			got := fitList(all, test.room, needed)
			if len(got.list)+got.left != len(all) || (got.left > 0) != test.left || (got.lost > 0) != test.lost {
				t.Errorf("%d listed, %d left out, lost %d", len(got.list), got.left, got.lost)
			}
			blinds := 0
			for i := range got.list {
				if needed(&got.list[i]) {
					blinds++
				}
			}
			if blinds != 1000 {
				t.Errorf("%d of 1000 objects are listed that are not found otherwise", blinds)
			}
			if size := jsonBytes(t, got.list); size > test.room && !test.lost {
				t.Errorf("the list has %d bytes, and there is room for %d", size, test.room)
			}
		})
	}
}

// TestAnInterruptedReadIsDoneAgain ends the context while the rules of an
// object are evaluated.
func TestAnInterruptedReadIsDoneAgain(t *testing.T) {
	set := rules.Compile([]workv1.ConditionRule{{
		Type: workv1.ConditionRuleTypeCEL, Condition: "Open", CELExpressions: []string{"true"},
	}})
	object := unstructuredOf(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "shop", "a")
	object.SetResourceVersion("2")
	o := &observation{observer: &observer{rules: set}, presence: presenceYes, seen: "1", next: time.Unix(1, 0)}
	o.conditions = []metav1.Condition{{Type: "Open", Status: metav1.ConditionFalse}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.take(ctx, object, feedback.Options{}, budget.New(clock.RealClock{}))
	if o.seen != "1" || len(o.conditions) != 1 || o.conditions[0].Status != metav1.ConditionFalse || !o.next.IsZero() {
		t.Errorf("the object counts as read: %q with %v, next %v", o.seen, o.conditions, o.next)
	}
	o.take(t.Context(), object, feedback.Options{}, budget.New(clock.RealClock{}))
	if o.seen != "2" || o.conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("the object was not read: %q with %v", o.seen, o.conditions)
	}
}

// wholeBytes fails unless the API server could have taken a larger object.
func (s *scene) wholeBytes(work *workv1.ManifestWork) {
	s.t.Helper()
	if size := jsonBytes(s.t, work); size > 1536<<10 {
		s.t.Errorf("the work has %d bytes", size)
	}
}

// TestStatusThatIsTooLargeIsWrittenShorter shares an API server between the
// following.
func TestStatusThatIsTooLargeIsWrittenShorter(t *testing.T) {
	lab := newLab(t)
	t.Run("thousands of manifests", func(t *testing.T) { thousandsOfManifests(t, lab) })
	t.Run("megabytes of feedback", func(t *testing.T) { megabytesOfFeedback(t, lab) })
	t.Run("a hub that takes less", func(t *testing.T) { refusedStatus(t, lab) })
	t.Run("a record that cannot list all", func(t *testing.T) { refusedList(t, lab) })
}

func thousandsOfManifests(t *testing.T, lab *lab) {
	const manifests = 5000
	s := lab.scene(t, "thousands")
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
	s.contains(c.Message, "and 4990 more", fmt.Sprintf("status.resourceStatus lacks %d of %d manifests", manifests-entries, manifests), "divide it")
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

func megabytesOfFeedback(t *testing.T, lab *lab) {
	const objects, size, fit = 20, 100_000, 5
	s := lab.scene(t, "large")
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
	s.contains(message(work, fit, "StatusFeedbackSynced"), "False StatusFeedbackSyncFailed: ", "left out", "more than 512 KiB", "divide the work")
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

func refusedStatus(t *testing.T, lab *lab) {
	const objects, size = 10, 10_000
	for name, test := range map[string]struct {
		reason  string
		bytes   int
		code    int
		message string
		entries int
	}{
		"body":    {"the API server takes no such body", 60_000, http.StatusRequestEntityTooLarge, "The body is too large", objects},
		"etcd":    {"etcd takes no such request", 60_000, http.StatusInternalServerError, "etcdserver: request is too large", objects},
		"grpc":    {"the client of etcd takes no such request", 2_000, http.StatusInternalServerError, "RPC error: trying to send message larger than max (3187653 vs. 2097152)", 0},
		"invalid": {"the API server says that something in it is not valid", 60_000, http.StatusUnprocessableEntity, "ManifestWork is invalid: status.resourceStatus: Too long", 0},
	} {
		t.Run(test.reason, func(t *testing.T) {
			s := lab.scene(t, "refused-"+name)
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
				s.contains(applied.Message, "lacks 10 of 10 manifests", test.message)
			}
		})
	}
}

func refusedList(t *testing.T, lab *lab) {
	const objects = 150
	for name, test := range map[string]struct {
		reason string
		verbs  []string // that the agent has for ConfigMaps
		status metav1.ConditionStatus
		says   string
		list   bool
	}{
		"seen": {
			"objects that are found without the list", []string{"*"}, metav1.ConditionTrue, "has no room to list ", true,
		},
		"blind": {
			"objects that are not", []string{"get", "create", "patch", "delete"}, metav1.ConditionFalse, "cannot list all objects", false,
		},
	} {
		t.Run(test.reason, func(t *testing.T) {
			s := lab.scene(t, "roster-"+name)
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
					if err == nil && !strings.Contains(message(work, objects, "Applied"), "there is no room to list it") {
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
