// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// quietTime is how long an agent asks nothing that has nothing to do.
const quietTime = 500 * time.Millisecond

const (
	keepReplicas = "function Retain(desired, observed)\n  desired.spec.replicas = observed.spec.replicas\n  return desired\nend"
	count        = "function ReflectStatus(o)\n  if o.status == nil then return nil end\n  return {count = o.status.replicas or 0}\nend"
	manyAreWell  = "function InterpretHealth(o)\n  return o.status ~= nil and (o.status.replicas or 0) > 1\nend"
)

// scripts are those of a customization, by what they are for.
type scripts struct{ retention, reflection, health string }

// customizes makes or changes the customization of a kind, until the test ends.
func (s *scene) customizes(name, apiVersion, kind string, by scripts) {
	s.t.Helper()
	rule := func(script string) *configv1alpha1.LuaRule {
		if script == "" {
			return nil
		}
		return &configv1alpha1.LuaRule{LuaScript: script}
	}
	customization := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(customization), customization)
	customization.Spec = configv1alpha1.ResourceInterpreterCustomizationSpec{
		Target: configv1alpha1.CustomizationTarget{APIVersion: apiVersion, Kind: kind},
		Customizations: configv1alpha1.CustomizationRules{
			Retention: rule(by.retention), StatusReflection: rule(by.reflection), HealthInterpretation: rule(by.health),
		},
	}
	if err == nil {
		err = s.client.Update(s.t.Context(), customization)
	} else if err = client.IgnoreNotFound(err); err == nil {
		err = s.client.Create(s.t.Context(), customization)
		s.t.Cleanup(func() { s.uncustomize(name) })
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) uncustomize(name string) {
	customization := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := s.client.Delete(context.WithoutCancel(s.t.Context()), customization); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	}
}

// autoscale has a controller of the cluster set the replicas of a Deployment.
func (s *scene) autoscale(name string, replicas int32) {
	s.t.Helper()
	s.eventually("scaling "+name, func() error {
		d := &appsv1.Deployment{}
		if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: name}, d); err != nil {
			return err
		}
		d.Spec.Replicas = &replicas
		return s.client.Update(s.t.Context(), d, client.FieldOwner("autoscaler"))
	})
}

// imaged is a triple with another image.
func (s *scene) imaged(name, image string) string {
	return strings.Replace(s.triple(name), `"image":"i"`, fmt.Sprintf(`"image":%q`, image), 1)
}

// runs waits until the Deployment has the image and replicas.
func (s *scene) runs(name, image string, replicas int32) {
	s.t.Helper()
	s.becomes(name, fmt.Sprintf("it has image %s and %d replicas", image, replicas), func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == image && *d.Spec.Replicas == replicas
	})
}

// traffic counts the requests of an agent, and changes answers.
type traffic struct {
	mu     sync.Mutex
	writes []string
	reads  int // of customizations
	// denied is what the hub says if the agent asks whether it may read customizations.
	denied bool
	// last is when the last request was, and rounds how often it was waited for that.
	last   time.Time
	rounds int
	// held holds up requests for customizations until it is closed.
	held chan struct{}
}

func (c *traffic) options() agentOptions {
	options := seldom()
	options.wrap = func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/selfsubjectaccessreviews") {
				return c.review(rt, request)
			}
			c.mu.Lock()
			c.last = time.Now()
			held := c.held
			about := strings.Contains(request.URL.Path, "/resourceinterpretercustomizations")
			switch {
			case about:
				c.reads++
			case request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "appliedmanifestworks") && !strings.Contains(request.URL.Path, "/marker"):
				c.writes = append(c.writes, request.Method+" "+request.URL.Path)
			}
			c.mu.Unlock()
			if about && held != nil {
				select {
				case <-held:
				case <-request.Context().Done():
					return nil, request.Context().Err()
				}
			}
			return rt.RoundTrip(request)
		})
	}
	return options
}

func (c *traffic) review(rt http.RoundTripper, request *http.Request) (*http.Response, error) {
	c.mu.Lock()
	denied := c.denied
	c.mu.Unlock()
	response, err := rt.RoundTrip(request)
	if err != nil || !denied {
		return response, err
	}
	_ = response.Body.Close()
	body := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":false}}`
	response.Header.Set("Content-Type", "application/json")
	response.Body, response.ContentLength = io.NopCloser(bytes.NewBufferString(body)), int64(len(body))
	return response, nil
}

// take returns the writes since it was called last, sorted.
func (c *traffic) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	writes := c.writes
	c.writes = nil
	slices.Sort(writes)
	return writes
}

func (c *traffic) readsOf() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func TestWhatTheClusterDecidesIsRetained(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var seen traffic
	s.customizes("keep", "apps/v1", deploymentKind, scripts{retention: keepReplicas})
	s.start(seen.options())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.runs("d", "i", 3)
	s.condition("w", "Applied", metav1.ConditionTrue)
	seen.take()
	s.autoscale("d", 5)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "j")) })
	s.runs("d", "j", 5)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.ours("d", "f:replicas", false)
	// What the cluster does alone is not answered by a write.
	s.settles(&seen)
	seen.take()
	for _, replicas := range []int32{3, 7, 1} {
		s.autoscale("d", replicas)
		s.settles(&seen)
	}
	s.runs("d", "j", 1)
	if writes := seen.take(); len(writes) > 0 {
		t.Errorf("the agent wrote %q for what the cluster decides", writes)
	}
	s.ours("d", "f:replicas", false)
	s.autoscale("d", 4)
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, strings.Replace(s.imaged("d", "k"), `"replicas":3`, `"replicas":9`, 1))
	})
	s.runs("d", "k", 4)
	s.uncustomize("keep")
	s.runs("d", "k", 9)
	s.ours("d", "f:replicas", true)
}

// ours checks whether the agent owns a field of a Deployment.
func (s *scene) ours(name, field string, want bool) {
	s.t.Helper()
	d := &appsv1.Deployment{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: name}, d); err != nil {
		s.t.Fatal(err)
	}
	owned := false
	for i := range d.ManagedFields {
		entry := &d.ManagedFields[i]
		owned = owned || strings.HasPrefix(entry.Manager, workv1.DefaultFieldManager) && strings.Contains(entry.FieldsV1.GetRawString(), `"`+field+`"`)
	}
	if owned != want {
		s.t.Errorf("the agent owns %s of %s: %t, want %t", field, name, owned, want)
	}
}

func TestAControllerWithAnApplyOfItsOwnIsLetBe(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.customizes("keep", "apps/v1", deploymentKind, scripts{retention: keepReplicas})
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.runs("d", "i", 3)
	decides := func(replicas int64, options ...client.ApplyOption) {
		t.Helper()
		applied := unstructuredOf(appsv1.SchemeGroupVersion.WithKind(deploymentKind), s.ns(), "d")
		applied.Object["spec"] = map[string]any{"replicas": replicas}
		err := s.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), append(options, client.FieldOwner("autoscaler"))...)
		if err != nil {
			t.Fatal(err)
		}
	}
	decides(5, client.ForceOwnership)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "j")) })
	s.runs("d", "j", 5)
	decides(6) // without force: the field is nobody else's
	s.runs("d", "j", 6)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "k")) })
	s.runs("d", "k", 6)
}

func TestTheWholeObjectMayBeThatOfTheCluster(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var seen traffic
	s.customizes("all", "v1", "ConfigMap", scripts{retention: "function Retain(desired, observed) return observed end"})
	s.start(seen.options())
	s.create(ofBinding(s.work("w", s.configMap("c", "1"))))
	s.has("c", "1")
	s.condition("w", "Applied", metav1.ConditionTrue)
	if err := s.client.Patch(t.Context(), s.has("c", "1"), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"key":"theirs","more":"x"},"metadata":{"labels":{"a":"b"}}}`))); err != nil {
		t.Fatal(err)
	}
	s.settles(&seen)
	seen.take()
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("c", "2")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.settles(&seen)
	found := s.has("c", "theirs")
	if found.Data["more"] != "x" || found.Labels["a"] != "b" || found.Labels[workv1.LabelManaged] != "true" || len(found.OwnerReferences) != 1 {
		t.Errorf("the object is %+v", found)
	}
	seen.take()
	s.change("w", func(w *workv1.ManifestWork) { metav1.SetMetaDataAnnotation(&w.ObjectMeta, "a", "b") })
	s.settles(&seen)
	if writes := seen.take(); len(writes) > 0 {
		t.Errorf("the agent wrote %q for nothing", writes)
	}
	for _, name := range []string{"w", "marker"} {
		s.delete(name)
		s.gone(name)
	}
	s.nothingLeft()
}

func TestStatusAndHealthAreAsScriptsSay(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.customizes("judge", "apps/v1", deploymentKind, scripts{reflection: count, health: manyAreWell})
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.reports("w", 0, `health={"string":"Unhealthy"}`)
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":1,"updatedReplicas":1}`)
	s.reports("w", 0, `status={"jsonRaw":"{\"count\":1}"`)
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":2}`)
	work := s.reports("w", 0, `health={"string":"Healthy"}`)
	if got, want := values(work, 0), `status={"jsonRaw":"{\"count\":2}"} health={"string":"Healthy"}`; strings.Join(strings.Fields(got), " ") != want {
		t.Errorf("the agent reports %s, want %s", got, want)
	}
	// Without it all is as it was before.
	s.uncustomize("judge")
	s.reports("w", 0, `\"observedGeneration\":1,`)
	s.reports("w", 0, `health={"string":"Unhealthy"}`)
}

func TestAScriptThatFailsLosesNothing(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.create(ofBinding(s.work("other", s.configMap("c", "1"))))
	s.runs("d", "i", 3)
	s.autoscale("d", 3)
	s.customizes("keep", "apps/v1", deploymentKind, scripts{retention: "function Retain(desired, observed)\n  return nothing.there\nend"})
	s.tells("w", 0, "Applied", "False AppliedManifestFailed: The object is left as it is in the cluster, because the fields to retain could not be determined. "+
		`ResourceInterpreterCustomization "keep", retention: line 2: attempt to index a non-table object(nil) with key 'there'. `+
		"Correct spec.customizations.retention.luaScript, or remove it.")
	s.sums("w", "Applied", `ResourceInterpreterCustomization "keep"`)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "j")) })
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.change("other", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("c", "2")) })
	s.has("c", "2")
	s.condition("other", "Applied", metav1.ConditionTrue)
	s.runs("d", "i", 3)
	// One of another object is refused, too: nothing is written that nobody asked for.
	s.customizes("keep", "apps/v1", deploymentKind, scripts{retention: "function Retain(d, o) d.metadata.name = 'x' return d end"})
	s.tells("w", 0, "Applied", `it returns another object: metadata.name is "x", want "d".`)
	s.runs("d", "i", 3)
	s.customizes("keep", "apps/v1", deploymentKind, scripts{retention: keepReplicas})
	s.runs("d", "j", 3)
	s.condition("w", "Applied", metav1.ConditionTrue)
}

func TestHostileScriptsEnd(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	const forever = "while true do end"
	s.customizes("hostile", "apps/v1", deploymentKind, scripts{
		retention:  "function Retain(d, o) local s = 'x' while true do s = s .. s end end",
		reflection: "function ReflectStatus(o) return {wrong = string.rep('x', 1e9)} end",
		health:     "function InterpretHealth(o) " + forever + " end",
	})
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.create(ofBinding(s.work("other", s.configMap("c", "1"))))
	s.runs("d", "i", 3) // what is not there yet has nothing to retain
	s.has("c", "1")
	work := s.tells("w", 0, "StatusFeedbackSynced", `False InterpretationFailed: ResourceInterpreterCustomization "hostile", statusReflection: `)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "Correct spec.customizations.statusReflection.luaScript, or remove it.",
		`ResourceInterpreterCustomization "hostile", healthInterpretation: `)
	if got := values(work, 0); got != `health={"string":"Unknown"}` {
		t.Errorf("the agent reports %s", got)
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "j")) })
	s.tells("w", 0, "Applied", `False AppliedManifestFailed: The object is left as it is`)
	s.runs("d", "i", 3)
	s.uncustomize("hostile")
	s.runs("d", "j", 3)
	s.tells("w", 0, "StatusFeedbackSynced", "True StatusFeedbackSynced")
}

func TestAChangeOfScriptsTakesEffectAndNothingElseIsWritten(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var seen traffic
	const works = 5
	s.start(seen.options())
	for i := range works {
		s.create(ofBinding(s.work(fmt.Sprint("d", i), s.triple(fmt.Sprint("d", i)))))
		s.create(ofBinding(s.work(fmt.Sprint("c", i), s.configMap(fmt.Sprint("c", i), "1"))))
	}
	for i := range works {
		s.reports(fmt.Sprint("d", i), 0, `health={"string":"Unhealthy"}`)
		s.reports(fmt.Sprint("c", i), 0, `health={"string":"Healthy"}`)
	}
	// quiet makes sure that a change writes nothing.
	quiet := func(what string, change func()) {
		t.Helper()
		s.settles(&seen)
		seen.take()
		change()
		s.settles(&seen)
		if writes := seen.take(); len(writes) > 0 {
			t.Errorf("%s: the agent wrote %q", what, writes)
		}
	}
	quiet("a verdict that is the same", func() {
		s.customizes("judge", "apps/v1", deploymentKind, scripts{health: "function InterpretHealth(o) return false end"})
	})
	quiet("another script that says the same", func() {
		s.customizes("judge", "apps/v1", deploymentKind, scripts{health: "function InterpretHealth(obj) return 1 > 2 end"})
	})
	quiet("a retention of what is the same", func() {
		s.customizes("judge", "apps/v1", deploymentKind, scripts{retention: keepReplicas, health: "function InterpretHealth(obj) return 1 > 2 end"})
	})
	quiet("another retention of what is the same", func() {
		s.customizes("judge", "apps/v1", deploymentKind, scripts{retention: "-- the same\n" + keepReplicas, health: "function InterpretHealth(obj) return 1 > 2 end"})
	})
	quiet("a retention that is gone", func() {
		s.customizes("judge", "apps/v1", deploymentKind, scripts{health: "function InterpretHealth(obj) return 1 > 2 end"})
	})
	quiet("another kind", func() {
		s.customizes("other", "batch/v1", "CronJob", scripts{health: "function InterpretHealth(o) return false end"})
	})
	s.customizes("judge", "apps/v1", deploymentKind, scripts{health: "function InterpretHealth(o) return true end"})
	for i := range works {
		s.reports(fmt.Sprint("d", i), 0, `health={"string":"Healthy"}`)
	}
	s.settles(&seen)
	var want []string
	for i := range works {
		want = append(want, fmt.Sprintf("PATCH /apis/work.open-cluster-management.io/v1/namespaces/%s/manifestworks/d%d/status", s.cluster, i))
	}
	if got := seen.take(); !slices.Equal(got, want) {
		t.Errorf("the agent wrote\n%q, want\n%q", got, want)
	}
}

func TestWorksOfUsersAreAsTheySayWhateverScriptsSay(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.customizes("odd", "v1", "ConfigMap", scripts{
		retention: "function Retain(d, o) return o end", health: "function InterpretHealth(o) return false end",
	})
	var seen traffic
	s.start(seen.options())
	work := s.work("w", s.configMap("c", "1"))
	metav1.SetMetaDataAnnotation(&work.ObjectMeta, workv1.AnnotationReportHealth, "true")
	s.create(work)
	s.has("c", "1")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("c", "2")) })
	s.has("c", "2")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.tells("w", 0, "Degraded", "False")
	if reads := seen.readsOf(); reads != 0 {
		t.Errorf("the agent asked %d times for customizations, which no work needs", reads)
	}
}

func TestNothingIsAppliedBeforeItIsKnownWhatToRetain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.customizes("keep", "apps/v1", deploymentKind, scripts{retention: keepReplicas, reflection: count})
	first := s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.runs("d", "i", 3)
	s.autoscale("d", 5)
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":5}`)
	s.reports("w", 0, `\"count\":5`)
	first.stop()
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "j")) })
	seen := traffic{held: make(chan struct{})}
	s.start(seen.options())
	s.create(s.work("users", s.configMap("c", "1")))
	s.has("c", "1") // which does not wait
	s.eventually("the agent asks for customizations", func() error {
		if seen.readsOf() == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	s.runs("d", "i", 5)
	close(seen.held)
	s.runs("d", "j", 5)
	s.reports("w", 0, `\"count\":5`)
}

// hasty is a clock that goes faster than others.
type hasty struct {
	clock.RealClock
	began time.Time
}

const haste = 20

func (c hasty) Now() time.Time                       { return c.began.Add(haste * time.Since(c.began)) }
func (c hasty) Since(t time.Time) time.Duration      { return c.Now().Sub(t) }
func (c hasty) NewTimer(d time.Duration) clock.Timer { return c.RealClock.NewTimer(d / haste) }

func TestAHubThatLetsAgentsReadNothingIsNotRead(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.customizes("odd", "v1", "ConfigMap", scripts{health: "function InterpretHealth(o) return false end"})
	seen := traffic{denied: true}
	options := seen.options()
	options.part.Clock = hasty{began: time.Now()}
	s.start(options)
	s.create(ofBinding(s.work("w", s.configMap("c", "1"))))
	s.has("c", "1")
	s.reports("w", 0, `health={"string":"Healthy"}`)
	if reads := seen.readsOf(); reads != 0 {
		t.Errorf("the agent asked %d times for customizations, which it may not read", reads)
	}
	// When it may, what it has is looked at anew.
	seen.mu.Lock()
	seen.denied = false
	seen.mu.Unlock()
	s.create(ofBinding(s.work("next", s.configMap("d", "1"))))
	s.reports("w", 0, `health={"string":"Unhealthy"}`)
}

// settles waits until the agent has taken in all customizations that there are, and
// asks nobody anything any more.
func (s *scene) settles(seen *traffic) {
	s.t.Helper()
	seen.rounds++
	verdict, want := "true", "Healthy"
	if seen.rounds%2 == 1 {
		verdict, want = "false", "Unhealthy"
	}
	if seen.rounds == 1 {
		s.create(ofBinding(s.work("marker", fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"marker","namespace":%q}}`, s.ns()))))
	}
	s.customizes("marker-of-"+s.cluster, "v1", "Secret", scripts{health: "function InterpretHealth(o) return " + verdict + " end"})
	s.reports("marker", 0, fmt.Sprintf(`health={"string":%q}`, want))
	s.eventually("the agent is done", func() error {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if time.Since(seen.last) < quietTime {
			return errors.New("it is not")
		}
		return nil
	})
}
