// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
)

// The kinds of the objects.
const (
	deploymentKind = "Deployment"
	jobKind        = "Job"
)

// seldom is an agent that polls less often than a test is patient.
func seldom() agentOptions {
	return agentOptions{part: PartOptions{StatusSyncInterval: 10 * patience}}
}

// triple is a Deployment of three replicas.
func (s *scene) triple(name string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":%q},"spec":{"replicas":3,
"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, name, s.ns())
}

func (s *scene) job(name string) string {
	return fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":%q,"namespace":%q},"spec":{
"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`, name, s.ns())
}

// live returns an object of the member.
func (s *scene) live(kind, name string) (*unstructured.Unstructured, error) {
	group := map[string]string{deploymentKind: "apps", jobKind: "batch"}[kind]
	u := unstructuredOf(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, s.ns(), name)
	return u, s.client.Get(s.t.Context(), client.ObjectKeyFromObject(u), u)
}

// status writes the status of an object of the member.
func (s *scene) status(kind, name, status string) {
	s.t.Helper()
	s.eventually("writing the status of "+name, func() error {
		u, err := s.live(kind, name)
		if err != nil {
			return err
		}
		var content map[string]any
		if err := json.Unmarshal([]byte(status), &content); err != nil {
			return err
		}
		u.Object["status"] = content
		return s.client.Status().Update(s.t.Context(), u)
	})
}

// asks returns the work with a config for all objects of the kind.
func asks(work *workv1.ManifestWork, kind string, config workv1.ManifestConfigOption) *workv1.ManifestWork {
	config.ResourceIdentifier = workv1.ResourceIdentifier{Resource: strings.ToLower(kind) + "s", Namespace: "*", Name: "*"}
	config.ResourceIdentifier.Group = map[string]string{deploymentKind: "apps", jobKind: "batch"}[kind]
	work.Spec.ManifestConfigs = append(work.Spec.ManifestConfigs, config)
	return work
}

func wellKnown() []workv1.FeedbackRule {
	return []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}}
}

func paths(namesAndPaths ...string) []workv1.FeedbackRule {
	rule := workv1.FeedbackRule{Type: workv1.FeedbackTypeJSONPaths}
	for i := 0; i < len(namesAndPaths); i += 2 {
		rule.JSONPaths = append(rule.JSONPaths, workv1.JSONPath{Name: namesAndPaths[i], Path: namesAndPaths[i+1]})
	}
	return []workv1.FeedbackRule{rule}
}

func celRule(condition string, expressions ...string) workv1.ConditionRule {
	return workv1.ConditionRule{Type: workv1.ConditionRuleTypeCEL, Condition: condition, CELExpressions: expressions}
}

// values returns the reported fields of an object as NAME=JSON, with blanks
// between.
func values(work *workv1.ManifestWork, ordinal int) string {
	var texts []string
	for i := range work.Status.ResourceStatus.Manifests {
		if m := &work.Status.ResourceStatus.Manifests[i]; int(m.ResourceMeta.Ordinal) == ordinal {
			for _, v := range m.StatusFeedback.Values {
				text, _ := json.Marshal(v.FieldValue)
				texts = append(texts, v.Name+"="+strings.Replace(string(text), fmt.Sprintf(`"type":%q,`, v.FieldValue.Type), "", 1))
			}
		}
	}
	return strings.Join(texts, " ")
}

// shows waits until the function of the work returns the text.
func (s *scene) shows(name, what, want string, of func(*workv1.ManifestWork) string) *workv1.ManifestWork {
	s.t.Helper()
	var found *workv1.ManifestWork
	s.eventually(what, func() error {
		work, err := s.get(name)
		if err != nil {
			return err
		}
		found = work
		if got := of(work); !strings.Contains(got, want) {
			text, _ := json.Marshal(work.Status)
			return fmt.Errorf("%q is not in %q; all is %s", want, got, text)
		}
		return nil
	})
	return found
}

func (s *scene) reports(name string, ordinal int, want string) *workv1.ManifestWork {
	s.t.Helper()
	return s.shows(name, "the fields", want, func(w *workv1.ManifestWork) string { return values(w, ordinal) })
}

func (s *scene) tells(name string, ordinal int, conditionType, want string) *workv1.ManifestWork {
	s.t.Helper()
	return s.shows(name, conditionType, want, func(w *workv1.ManifestWork) string { return message(w, ordinal, conditionType) })
}

func (s *scene) sums(name, conditionType, want string) *workv1.ManifestWork {
	s.t.Helper()
	return s.shows(name, conditionType+" of the work", want, func(w *workv1.ManifestWork) string {
		c := meta.FindStatusCondition(w.Status.Conditions, conditionType)
		if c == nil {
			return "none"
		}
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	})
}

func TestAFieldIsReportedWhenTheStatusChanges(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(asks(s.work("w", s.triple("d"), s.configMap("c", "1")), deploymentKind, workv1.ManifestConfigOption{FeedbackRules: wellKnown()}))
	s.sums("w", "StatusFeedbackSynced", "True StatusFeedbackSynced")
	s.status(deploymentKind, "d", `{"replicas":3,"readyReplicas":1,"availableReplicas":1}`)
	work := s.reports("w", 0, `ReadyReplicas={"integer":1} Replicas={"integer":3} AvailableReplicas={"integer":1}`)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "True StatusFeedbackSynced")
	s.contains(message(work, 1, "StatusFeedbackSynced"), "True NoStatusFeedbackSynced")
	s.status(deploymentKind, "d", `{"replicas":3,"readyReplicas":3,"availableReplicas":3}`)
	s.reports("w", 0, `ReadyReplicas={"integer":3}`)
	s.change("w", func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs = nil })
	work = s.shows("w", "no field is left", "none", func(w *workv1.ManifestWork) string {
		if len(w.Status.ResourceStatus.Manifests[0].StatusFeedback.Values) > 0 {
			return "some"
		}
		return "none"
	})
	if len(work.Status.Conditions) != 2 || message(work, 0, "StatusFeedbackSynced") != "" {
		t.Errorf("conditions of the work are %+v, of the object %s", work.Status.Conditions, message(work, 0, "StatusFeedbackSynced"))
	}
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestManyChangesAreFewWrites(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var count, onHub atomic.Int64
	options := seldom()
	options.wrap = func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/manifestworks/") {
				onHub.Add(1)
			}
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/deployments/d") {
				count.Add(1)
			}
			return rt.RoundTrip(r)
		})
	}
	s.start(options)
	s.create(asks(s.work("w", s.triple("d")), deploymentKind, workv1.ManifestConfigOption{FeedbackRules: wellKnown()}))
	s.sums("w", "StatusFeedbackSynced", "True")
	count.Store(0)
	onHub.Store(0)
	const changes = 200
	for i := range changes {
		s.status(deploymentKind, "d", fmt.Sprintf(`{"replicas":%d}`, i+1))
	}
	s.reports("w", 0, fmt.Sprintf(`Replicas={"integer":%d}`, changes))
	if writes := onHub.Load(); writes > changes/2 {
		t.Errorf("%d changes made %d writes to the hub", changes, writes)
	}
	if reads := count.Load(); reads > changes/2 {
		t.Errorf("%d changes made %d reads", changes, reads)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func TestAFieldThatIsNotThereOrTooBigSaysSo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	options := seldom()
	options.part.Feedback = feedback.ValueOptions{RawJSON: true}
	s.start(options)
	s.create(asks(s.work("w", s.configMap("c", strings.Repeat("x", 2000)), s.triple("d")), "ConfigMap", workv1.ManifestConfigOption{
		FeedbackRules: paths("none", ".status.phase", "labels", ".metadata.labels", "all", ".data", "kind", ".kind"),
	}))
	work := s.reports("w", 0, `labels={"jsonRaw":"{\"work.open-cluster-management.io/managed\":\"true\"}"} kind={"string":"ConfigMap"}`)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "False StatusFeedbackSyncFailed", `"all"`)
	s.sums("w", "StatusFeedbackSynced", "False StatusFeedbackSyncFailed: Not all fields were read; see status.resourceStatus: manifest 0 ConfigMap")
}

func TestAnObjectThatGoesTakesItsFieldsAlong(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	work := withStrategy(s.work("w", s.configMap("c", "1")), "*", workv1.UpdateStrategyTypeCreateOnly)
	work.Spec.ManifestConfigs[0].FeedbackRules = paths("key", ".data.key", "uid", ".metadata.uid")
	s.create(work)
	s.reports("w", 0, `key={"string":"1"}`)
	old, _, err := s.value("c")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.shows("w", "the UID is that of the new object", "another", func(w *workv1.ManifestWork) string {
		if got := values(w, 0); got == "" || strings.Contains(got, string(old.UID)) {
			return got
		}
		return "another"
	})
}

func TestARuleMakesAConditionAndTakesItAway(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(asks(s.work("w", s.triple("d")), deploymentKind, workv1.ManifestConfigOption{ConditionRules: []workv1.ConditionRule{
		celRule("Ready", `object.?status.readyReplicas.orValue(0) == object.spec.replicas`),
	}}))
	s.tells("w", 0, "Ready", "False ConditionRuleEvaluated")
	s.sums("w", "Ready", "False ConditionRulesAggregated")
	s.status(deploymentKind, "d", `{"replicas":3,"readyReplicas":1}`)
	s.status(deploymentKind, "d", `{"replicas":3,"readyReplicas":3}`)
	s.tells("w", 0, "Ready", "True ConditionRuleEvaluated")
	work := s.sums("w", "Ready", "True ConditionRulesAggregated")
	since := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[0].Conditions, "Ready").LastTransitionTime
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.triple("d"), s.configMap("c", "1")) })
	work = s.condition("w", "Ready", metav1.ConditionTrue)
	c := meta.FindStatusCondition(work.Status.ResourceStatus.Manifests[0].Conditions, "Ready")
	if c == nil || c.ObservedGeneration != work.Generation || !c.LastTransitionTime.Equal(&since) {
		t.Errorf("the condition is %+v; want generation %d, since %s", c, work.Generation, since)
	}
	s.change("w", func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs = nil })
	work = s.sums("w", "Ready", "none")
	if got := message(work, 0, "Ready"); got != "" {
		t.Errorf("the object still has %s", got)
	}
}

func TestARuleThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(asks(s.work("w", s.triple("d")), deploymentKind, workv1.ManifestConfigOption{ConditionRules: []workv1.ConditionRule{
		celRule("Fails", `object.spec.nothing == 1`), celRule("Invalid", `object.`), celRule("Applied", `true`),
	}}))
	s.tells("w", 0, "Fails", "ConditionRuleExpressionError")
	work := s.tells("w", 0, "Invalid", "ConditionRule")
	s.contains(message(work, 0, "Applied"), "True AppliedManifestComplete", "Not followed", "Applied")
	s.sums("w", "Fails", "ConditionRulesAggregated")
}

func TestConditionsOfAllObjectsAreSummedUp(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(asks(s.work("w", s.triple("one"), s.triple("two"), s.configMap("c", "1")), deploymentKind, workv1.ManifestConfigOption{
		ConditionRules: []workv1.ConditionRule{
			celRule("Progressing", `object.?status.readyReplicas.orValue(0) < 3`), celRule("Ready", `object.?status.readyReplicas.orValue(0) == 3`),
		},
	}))
	s.sums("w", "Progressing", "True ConditionRulesAggregated")
	s.status(deploymentKind, "one", `{"replicas":3,"readyReplicas":3}`)
	s.tells("w", 0, "Progressing", "False")
	work := s.tells("w", 1, "Progressing", "True")
	s.sums("w", "Progressing", "two")
	if got := message(work, 2, "Progressing"); got != "" {
		t.Errorf("the object without a rule has %s", got)
	}
	s.sums("w", "Ready", "False")
	s.status(deploymentKind, "two", `{"replicas":3,"readyReplicas":3}`)
	s.sums("w", "Progressing", "False")
	s.sums("w", "Ready", "True")
}

const (
	jobRuns = `{"active":1,"startTime":"2026-01-01T00:00:00Z"}`
	jobDone = `{"succeeded":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:00Z","conditions":[
{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":"2026-01-01T00:01:00Z"},
{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:01:00Z"}]}`
)

// completeWork is a work with a job that ends it.
func (s *scene) completeWork() *workv1.ManifestWork {
	return asks(s.work("w", s.job("j"), s.configMap("c", "1")), jobKind, workv1.ManifestConfigOption{
		FeedbackRules:  wellKnown(),
		ConditionRules: []workv1.ConditionRule{{Type: workv1.ConditionRuleTypeWellKnownConditions, Condition: "Complete"}},
	})
}

func TestACompleteObjectIsNotAppliedAgain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(seldom())
	s.create(s.completeWork())
	s.sums("w", "Complete", "False")
	s.status(jobKind, "j", jobRuns)
	s.status(jobKind, "j", jobDone)
	work := s.condition("w", "Complete", metav1.ConditionTrue)
	s.contains(message(work, 0, "Complete"), "True ConditionRuleEvaluated")
	s.contains(message(work, 0, "Applied"), "True AppliedManifestComplete", "not applied again")
	for _, restart := range []bool{false, true} {
		if restart {
			first.stop()
			s.start(seldom())
		}
		cm := s.has("c", map[bool]string{false: "1", true: "changed"}[restart])
		cm.Data["key"] = "changed"
		cm.Annotations = map[string]string{"restart": fmt.Sprint(restart)}
		if err := s.client.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		s.create(s.work("other", s.configMap("x", "1"))) // a sign that the agent is at work
		s.condition("other", "Applied", metav1.ConditionTrue)
		<-time.After(300 * time.Millisecond)
		s.has("c", "changed")
		s.delete("other")
		s.gone("other")
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.job("j"), s.configMap("c", "2")) })
	s.has("c", "2")
	s.condition("w", "Complete", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestACompleteObjectThatIsGoneStaysSo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(s.completeWork())
	s.eventually("the job is there", func() error { _, err := s.live(jobKind, "j"); return err })
	s.status(jobKind, "j", jobRuns)
	s.status(jobKind, "j", jobDone)
	s.condition("w", "Complete", metav1.ConditionTrue)
	reported := values(s.tells("w", 0, "Complete", "True"), 0)
	job, err := s.live(jobKind, "j")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	work := s.condition("w", "Available", metav1.ConditionFalse)
	s.contains(message(work, 0, "Available"), "False ResourceNotAvailable")
	s.contains(message(work, 0, "Complete"), "True ConditionRuleEvaluated")
	s.contains(message(work, 0, "Applied"), "True")
	if got := values(work, 0); got != reported || got == "" {
		t.Errorf("fields are %q, want %q", got, reported)
	}
	<-time.After(300 * time.Millisecond)
	if _, err := s.live(jobKind, "j"); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the job is there again (%v)", err)
	}
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestAnObjectThatIsOnlyReadIsReported(t *testing.T) {
	t.Parallel()
	for how, options := range map[string]agentOptions{
		"watched":                             seldom(),
		"polled because no watch is possible": {part: PartOptions{StatusSyncInterval: 100 * time.Millisecond, MaxFeedbackWatch: -1}},
	} {
		t.Run(how, func(t *testing.T) {
			s := takeScene(t)
			s.start(options)
			s.create(asks(s.work("w", s.configMap("r", "1")), "ConfigMap", workv1.ManifestConfigOption{
				FeedbackRules: paths("key", ".data.key"), FeedbackScrapeType: workv1.FeedbackScrapeTypeWatch,
				ConditionRules: []workv1.ConditionRule{celRule("Theirs", `object.data.key == "theirs"`)},
				UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
			}))
			s.condition("w", "Available", metav1.ConditionFalse)
			work := s.condition("w", "StatusFeedbackSynced", metav1.ConditionFalse)
			s.contains(message(work, 0, "StatusFeedbackSynced"), "does not exist")
			s.contains(message(work, 0, "Theirs"), "Unknown")
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "r"}, Data: map[string]string{"key": "theirs"}}
			s.create(cm)
			s.reports("w", 0, `key={"string":"theirs"}`)
			s.condition("w", "Available", metav1.ConditionTrue)
			s.condition("w", "Theirs", metav1.ConditionTrue)
			cm.Data["key"] = "changed"
			if err := s.client.Update(t.Context(), cm); err != nil {
				t.Fatal(err)
			}
			s.reports("w", 0, `key={"string":"changed"}`)
			if err := s.client.Delete(t.Context(), cm); err != nil {
				t.Fatal(err)
			}
			work = s.condition("w", "Available", metav1.ConditionFalse)
			if got := values(work, 0); got != "" {
				t.Errorf("fields of what is gone are %s", got)
			}
			s.delete("w")
			s.gone("w")
		})
	}
}

func TestHealthIsReportedWhereItIsAskedFor(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	work := s.work("w", s.triple("d"), s.configMap("c", "1"))
	work.Annotations = map[string]string{workv1.AnnotationReportHealth: "true"}
	s.create(work)
	s.sums("w", "Progressing", "True HealthAggregated")
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":2}`)
	s.sums("w", "Progressing", "1 of 3")
	s.tells("w", 1, "Progressing", "False")
	s.tells("w", 0, "Degraded", "False")
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}`)
	s.sums("w", "Progressing", "False HealthAggregated")
	s.sums("w", "Degraded", "False HealthAggregated")
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":3,"updatedReplicas":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}`)
	s.sums("w", "Degraded", "True HealthAggregated")
	s.sums("w", "Progressing", "True HealthAggregated")
	s.change("w", func(w *workv1.ManifestWork) { w.Annotations = nil })
	s.sums("w", "Progressing", "none")
	got := s.sums("w", "Degraded", "none")
	if text := message(got, 0, "Progressing") + message(got, 1, "Degraded"); text != "" {
		t.Errorf("objects still have %s", text)
	}
}

func TestARuleGoesBeforeHealth(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	options := seldom()
	options.part.Health = true
	s.start(options)
	s.create(asks(s.work("w", s.triple("d"), s.configMap("c", "1")), deploymentKind, workv1.ManifestConfigOption{
		ConditionRules: []workv1.ConditionRule{celRule("Progressing", `false`)},
	}))
	work := s.tells("w", 0, "Progressing", "False ConditionRuleEvaluated")
	s.contains(message(work, 0, "Degraded"), "False")
	s.sums("w", "Progressing", "False ConditionRulesAggregated")
	s.sums("w", "Degraded", "False HealthAggregated")
}

// breakable fails requests that read a whole object as the function says.
func breakable(path string, fail *atomic.Int64) func(http.RoundTripper) http.RoundTripper {
	return func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			whole := !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")
			if whole && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, path) && fail.Add(-1) >= 0 {
				return nil, errors.New("the test fails the request")
			}
			return rt.RoundTrip(r)
		})
	}
}

func TestAServerThatFailsForAWhileLosesNoField(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var fail atomic.Int64
	options := seldom()
	options.wrap = breakable("/deployments/d", &fail)
	s.start(options)
	s.create(asks(s.work("w", s.triple("d")), deploymentKind, workv1.ManifestConfigOption{FeedbackRules: wellKnown()}))
	s.eventually("the object is there", func() error { _, err := s.live(deploymentKind, "d"); return err })
	s.status(deploymentKind, "d", `{"replicas":1}`)
	s.reports("w", 0, `Replicas={"integer":1}`)
	fail.Store(plan.QuietRetries)
	s.status(deploymentKind, "d", `{"replicas":2}`)
	s.reports("w", 0, `Replicas={"integer":2}`)
	fail.Store(1000)
	s.status(deploymentKind, "d", `{"replicas":3}`)
	s.tells("w", 0, "StatusFeedbackSynced", "False StatusFeedbackSyncFailed: Cannot get deployments.apps "+s.ns()+"/d")
	before := fail.Load()
	<-time.After(500 * time.Millisecond)
	if reads := before - fail.Load(); reads > 5 {
		t.Errorf("%d reads in half a second", reads)
	}
	fail.Store(0)
	s.status(deploymentKind, "d", `{"replicas":4}`)
	s.reports("w", 0, `Replicas={"integer":4}`)
}

func TestAFieldThatMayNotBeReadSaysWhatToAllow(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	options := seldom()
	options.spoke, _ = s.user(records, configMaps("list", "watch", "create", "patch", "delete"))
	s.start(options)
	s.create(asks(s.work("w", s.configMap("c", "1")), "ConfigMap", workv1.ManifestConfigOption{
		FeedbackRules: paths("key", ".data.key"), ConditionRules: []workv1.ConditionRule{celRule("Ready", "true")},
	}))
	s.condition("w", "Applied", metav1.ConditionTrue)
	work := s.condition("w", "StatusFeedbackSynced", metav1.ConditionFalse)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "StatusFeedbackSyncFailed", "may not get configmaps", "aggregate-to-work")
	s.contains(message(work, 0, "Ready"), "Unknown ConditionRuleInternalError", "may not get configmaps")
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestARestartReportsTheSameWithoutAWrite(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(seldom())
	s.create(asks(s.work("w", s.triple("d")), deploymentKind, workv1.ManifestConfigOption{
		FeedbackRules: wellKnown(), ConditionRules: []workv1.ConditionRule{celRule("Ready", "object.?status.replicas.orValue(0) == 1")},
	}))
	s.condition("w", "Ready", metav1.ConditionFalse)
	s.status(deploymentKind, "d", `{"replicas":1}`)
	s.condition("w", "Ready", metav1.ConditionTrue)
	before := s.reports("w", 0, `Replicas={"integer":1}`)
	first.stop()
	s.start(seldom())
	s.create(s.work("other", s.configMap("x", "1"))) // a sign that the agent is at work
	s.condition("other", "Applied", metav1.ConditionTrue)
	<-time.After(300 * time.Millisecond)
	after, err := s.get("w")
	if err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the work was written:\n%+v\n%+v", before.Status, after.Status)
	}
	s.status(deploymentKind, "d", `{"replicas":2}`)
	s.reports("w", 0, `Replicas={"integer":2}`)
}

func TestConditionsThatOthersSetOnAnObjectStay(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(asks(s.work("w", s.triple("d")), deploymentKind, workv1.ManifestConfigOption{FeedbackRules: wellKnown()}))
	s.condition("w", "Applied", metav1.ConditionTrue)
	theirs := metav1.Condition{Type: "example.com/Checked", Status: metav1.ConditionTrue, Reason: "Theirs", LastTransitionTime: metav1.Now()}
	s.eventually("setting a condition", func() error {
		work, err := s.get("w")
		if err != nil {
			return err
		}
		work.Status.Conditions = append(work.Status.Conditions, theirs)
		m := &work.Status.ResourceStatus.Manifests[0]
		m.Conditions = append(m.Conditions, theirs)
		return s.client.Status().Update(t.Context(), work)
	})
	s.status(deploymentKind, "d", `{"replicas":2}`)
	work := s.reports("w", 0, `Replicas={"integer":2}`)
	s.contains(message(work, 0, "example.com/Checked"), "True Theirs")
	s.sums("w", "example.com/Checked", "True Theirs")
}

func TestAnObjectWithAnExecutorThatIsRefusedIsNotRead(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "r"}, Data: map[string]string{"key": "private"}})
	work := asks(s.work("w", s.configMap("r", "1")), "ConfigMap", workv1.ManifestConfigOption{
		FeedbackRules: paths("key", ".data.key"), UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
	})
	s.create(s.as(work))
	s.condition("w", "Applied", metav1.ConditionFalse)
	work = s.condition("w", "StatusFeedbackSynced", metav1.ConditionFalse)
	if got := values(work, 0); got != "" {
		t.Errorf("fields are %s", got)
	}
	s.contains(message(work, 0, "StatusFeedbackSynced"), "get", "configmaps")
	s.allowHere("", "configmaps", "get")
	s.reports("w", 0, `key={"string":"private"}`)
}
