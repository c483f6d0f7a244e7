// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/interpret"
)

func workload() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Workload"}
}

// object returns a Workload.
func object(replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Workload", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{"replicas": replicas},
	}}
}

// answering returns what the webhooks of a server say, and the last question that it
// was asked. It answers with the response, in which UID stands for that of the
// question.
func answering(t *testing.T, response string) (interpret.Chain, *configv1alpha1.ResourceInterpreterRequest) {
	t.Helper()
	question := &configv1alpha1.ResourceInterpreterContext{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*question = configv1alpha1.ResourceInterpreterContext{Request: question.Request}
		*question.Request = configv1alpha1.ResourceInterpreterRequest{}
		if err := json.NewDecoder(r.Body).Decode(question); err != nil {
			t.Errorf("the question cannot be read: %v", err)
		}
		if question.Kind != "ResourceInterpreterContext" || question.APIVersion != "config.karmada.io/v1alpha1" {
			t.Errorf("the question is a %s of %s", question.Kind, question.APIVersion)
		}
		_, _ = w.Write([]byte(strings.ReplaceAll(response, "UID", string(question.Request.UID))))
	}))
	t.Cleanup(server.Close)
	question.Request = &configv1alpha1.ResourceInterpreterRequest{}
	configuration := configurationOf("workloads", hookAt("workloads.example.com", server.URL, "*", "Workload"))
	configuration.Webhooks[0].ClientConfig.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return interpret.Chain{NewWebhooks([]configv1alpha1.ResourceInterpreterWebhookConfiguration{configuration}, newCaller(t))}, question.Request
}

func newCaller(t *testing.T) *callout.Caller {
	caller := callout.NewCaller(callout.CallerOptions{Clock: clock.RealClock{}})
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	go func() { _ = caller.Start(ctx) }()
	return caller
}

func hookAt(name, url string, operation configv1alpha1.InterpreterOperation, kind string) configv1alpha1.ResourceInterpreterWebhook {
	return configv1alpha1.ResourceInterpreterWebhook{
		Name: name, ClientConfig: configv1alpha1.WebhookClientConfig{URL: &url}, InterpreterContextVersions: []string{"v1alpha1"},
		Rules: []configv1alpha1.RuleWithOperations{{
			Operations: []configv1alpha1.InterpreterOperation{operation},
			Rule:       configv1alpha1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"*"}, Kinds: []string{kind}},
		}},
	}
}

func configurationOf(name string, hooks ...configv1alpha1.ResourceInterpreterWebhook) configv1alpha1.ResourceInterpreterWebhookConfiguration {
	return configv1alpha1.ResourceInterpreterWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks}
}

func successful(fields string) string {
	return `{"apiVersion":"config.karmada.io/v1alpha1","kind":"ResourceInterpreterContext","response":{"uid":"UID","successful":true` + fields + `}}`
}

func patching(patch string) string {
	text, err := json.Marshal([]byte(patch))
	if err != nil {
		panic(err)
	}
	return successful(`,"patchType":"JSONPatch","patch":` + string(text))
}

// Each operation is asked for, and the question and what becomes of the answer are
// looked at.

func TestInterpretReplica(t *testing.T) {
	chain, question := answering(t, successful(`,"replicas":3,"replicaRequirements":{"resourceRequest":{"cpu":"2"},"nodeClaim":{"nodeSelector":{"disk":"fast"}}}`))
	replicas, needs, has, err := chain.GetReplicas(object(3))
	want := &interpret.Requirements{NodeSelector: map[string]string{"disk": "fast"}, Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}
	if diff := cmp.Diff(want, needs); err != nil || !has || replicas != 3 || diff != "" {
		t.Errorf("got %d, %t, %v: %s", replicas, has, err, diff)
	}
	wantKind := metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Workload"}
	if question.Operation != "InterpretReplica" || question.Kind != wantKind || question.Namespace != "shop" || question.Name != "web" ||
		!strings.Contains(string(question.Object.Raw), `"replicas":3`) || question.ObservedObject != nil || question.DesiredReplicas != nil {
		t.Errorf("the question is %+v", question)
	}
}

func TestInterpretComponent(t *testing.T) {
	chain, question := answering(t, successful(`,"components":[{"name":"main","replicas":1},{"name":"task","replicas":2,"replicaRequirements":{"priorityClassName":"high"}}]`))
	parts, has, err := chain.GetComponents(object(3))
	want := []interpret.Component{{Name: "main", Replicas: 1}, {Name: "task", Replicas: 2, Needs: &interpret.Requirements{PriorityClassName: "high"}}}
	if diff := cmp.Diff(want, parts); err != nil || !has || diff != "" || question.Operation != "InterpretComponent" {
		t.Errorf("got %t, %v: %s", has, err, diff)
	}
}

func TestReviseReplica(t *testing.T) {
	chain, question := answering(t, patching(`[{"op":"replace","path":"/spec/replicas","value":2}]`))
	revised, err := chain.ReviseReplicas(object(3), 2)
	if diff := cmp.Diff(object(2), revised); err != nil || diff != "" || question.DesiredReplicas == nil || *question.DesiredReplicas != 2 {
		t.Errorf("got %v: %s\n%+v", err, diff, question)
	}
}

func TestRetain(t *testing.T) {
	chain, question := answering(t, patching(`[{"op":"replace","path":"/spec/replicas","value":7}]`))
	retained, err := chain.RetainFields(object(3), object(7))
	if diff := cmp.Diff(object(7), retained); err != nil || diff != "" || !strings.Contains(string(question.ObservedObject.Raw), `"replicas":7`) {
		t.Errorf("got %v: %s\n%+v", err, diff, question)
	}
}

func TestInterpretStatus(t *testing.T) {
	chain, question := answering(t, successful(`,"rawStatus":{"ready":9007199254740993}`))
	status, err := chain.ReflectStatus(object(3))
	if diff := cmp.Diff(map[string]any{"ready": int64(9007199254740993)}, status); err != nil || diff != "" || question.Operation != "InterpretStatus" {
		t.Errorf("got %v: %s", err, diff)
	}
}

func TestAggregateStatus(t *testing.T) {
	chain, question := answering(t, patching(`[{"op":"add","path":"/status","value":{"ready":3}}]`))
	items := []interpret.ClusterItem{{Cluster: "b", Message: "no room", Health: interpret.Unknown}, {Cluster: "a", Applied: true, Health: interpret.Healthy, Status: map[string]any{"ready": int64(3)}}}
	status, changed, err := chain.AggregateStatus(object(3), items)
	if diff := cmp.Diff(map[string]any{"ready": int64(3)}, status); err != nil || !changed || diff != "" {
		t.Errorf("got %t, %v: %s", changed, err, diff)
	}
	text, err := json.Marshal(question.AggregatedStatus)
	if want := `[{"clusterName":"a","status":{"ready":3},"applied":true,"health":"Healthy"},{"clusterName":"b","appliedMessage":"no room","health":"Unknown"}]`; err != nil || string(text) != want {
		t.Errorf("it is told %s, want %s", text, want)
	}
}

func TestInterpretHealth(t *testing.T) {
	chain, question := answering(t, successful(`,"healthy":false`))
	if verdict, err := chain.InterpretHealth(object(3)); err != nil || verdict != interpret.Unhealthy || question.Operation != "InterpretHealth" {
		t.Errorf("got %q, %v", verdict, err)
	}
}

func TestInterpretDependency(t *testing.T) {
	chain, _ := answering(t, successful(`,"dependencies":[{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"key"},{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","labelSelector":{"matchLabels":{"a":"b"}}}]`))
	all, err := chain.GetDependencies(object(3))
	want := []interpret.Dependency{
		{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "key"},
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
	}
	if diff := cmp.Diff(want, all); err != nil || diff != "" || !chain.MayHaveDependencies(workload()) {
		t.Errorf("got %v: %s", err, diff)
	}
}

func TestNoPatch(t *testing.T) {
	chain, _ := answering(t, successful(""))
	revised, err := chain.ReviseReplicas(object(3), 2)
	if diff := cmp.Diff(object(3), revised); err != nil || diff != "" {
		t.Errorf("got %v: %s", err, diff)
	}
}

func TestWhatIsWrongWithAnAnswer(t *testing.T) {
	revise := func(c interpret.Chain) error { _, err := c.ReviseReplicas(object(3), 2); return err }
	replicas := func(c interpret.Chain) error { _, _, _, err := c.GetReplicas(object(3)); return err }
	reflect := func(c interpret.Chain) error { _, err := c.ReflectStatus(object(3)); return err }
	verdict := func(c interpret.Chain) error { _, err := c.InterpretHealth(object(3)); return err }
	needs := func(c interpret.Chain) error { _, err := c.GetDependencies(object(3)); return err }
	parts := func(c interpret.Chain) error { _, _, err := c.GetComponents(object(3)); return err }
	copies := ""
	for i := range 20 { // each doubles the spec
		copies += fmt.Sprintf(`,{"op":"copy","from":"/spec","path":"/spec/a%d"}`, i)
	}
	for name, c := range map[string]struct {
		ask          func(interpret.Chain) error
		answer, want string
	}{
		"no JSON":                 {replicas, "<html>secret</html>", "its answer is no ResourceInterpreterContext: it is not JSON"},
		"another type":            {replicas, successful(`,"replicas":"three"`), "response.replicas is of the wrong type"},
		"nothing":                 {replicas, "{}", "its answer has no response"},
		"another question's":      {replicas, strings.Replace(successful(`,"replicas":3`), "UID", "other", 1), "response.uid of its answer is not request.uid"},
		"no success":              {replicas, `{"response":{"uid":"UID","successful":false,"status":{"message":"no\n such pool","code":500}}}`, "it says: no such pool"},
		"no success but a code":   {replicas, `{"response":{"uid":"UID","successful":false,"status":{"code":500}}}`, "it says: code 500"},
		"no success, nobody says": {replicas, `{"response":{"uid":"UID"}}`, "not successful, and not why"},
		"a long message":          {replicas, `{"response":{"uid":"UID","status":{"message":"` + strings.Repeat("a", 1000) + `"}}}`, strings.Repeat("a", messageMax) + "…"},
		"no replicas":             {replicas, successful(""), "its answer has no response.replicas"},
		"less than none":          {replicas, successful(`,"replicas":-1`), "response.replicas of its answer is -1"},
		"no status":               {reflect, successful(""), "its answer has no response.rawStatus"},
		"a list as status":        {reflect, successful(`,"rawStatus":[]`), "response.rawStatus of its answer is not a JSON object"},
		"no health":               {verdict, successful(""), "its answer has no response.healthy"},
		"a dependency of no kind": {needs, successful(`,"dependencies":[{"apiVersion":"v1","name":"a"}]`), "response.dependencies[0] of its answer lacks"},
		"a dependency twice said": {needs, successful(`,"dependencies":[{"apiVersion":"v1","kind":"Secret","name":"a","labelSelector":{}}]`), "response.dependencies[0] of its answer lacks"},
		"many dependencies":       {needs, successful(`,"dependencies":[{}` + strings.Repeat(",{}", entriesMax) + `]`), "1001 dependencies, more than 1000"},
		"a part without a name":   {parts, successful(`,"components":[{"replicas":1}]`), "response.components[0] of its answer has no name"},
		"a patch of no type":      {revise, successful(`,"patch":"W10="`), "no response.patchType, want JSONPatch"},
		"a patch of another type": {revise, successful(`,"patch":"W10=","patchType":"Merge"`), `response.patchType of its answer is "Merge", want JSONPatch`},
		"a patch in plain text":   {revise, successful(`,"patch":"[}","patchType":"JSONPatch"`), "response.patch is not in base64"},
		"no patch":                {revise, patching(`{}`), "response.patch of its answer is not a JSON patch"},
		"a patch of nothing":      {revise, patching(`[{"op":"replace","path":"/status/a","value":1}]`), "response.patch of its answer cannot be applied to the object"},
		"another object":          {revise, patching(`[{"op":"replace","path":"/metadata/name","value":"b"}]`), "changes name, which makes it another object"},
		"another namespace":       {revise, patching(`[{"op":"remove","path":"/metadata/namespace"}]`), "changes namespace, which makes it another object"},
		"no object":               {revise, patching(`[{"op":"replace","path":"","value":[]}]`), "response.patch of its answer"},
		"a bomb of copies":        {revise, patching(`[{"op":"add","path":"/spec/b","value":"` + strings.Repeat("a", 1000) + `"}` + copies + `]`), "response.patch of its answer cannot be applied"},
		"many operations":         {revise, patching(`[{"op":"test","path":"/spec/replicas","value":3}` + strings.Repeat(`,{"op":"test","path":"/spec/replicas","value":3}`, operationsMax) + `]`), "10001 operations, more than 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			chain, question := answering(t, c.answer)
			err := c.ask(chain)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			begins := `webhook "workloads.example.com" of ResourceInterpreterWebhookConfiguration "workloads", ` + string(question.Operation) + ` of Workload "shop/web": `
			if !strings.HasPrefix(err.Error(), begins) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q does not begin with %q, or tells what others say", err, begins)
			}
			custom := (*interpret.CustomError)(nil)
			if !errors.As(err, &custom) || custom.Remedy == "" || interpret.RetryDelayOf(err) <= 0 {
				t.Errorf("nobody knows what to do, or when to ask again: %+v", custom)
			}
		})
	}
}

func TestAWebhookThatIsAwayIsNamed(t *testing.T) {
	chain, _ := answering(t, "")
	hooks := chain[0].(*Webhooks).hooks
	hooks[0].target.URL, hooks[0].target.Name = "https://nowhere.invalid", "other"
	hooks[0].line = newCaller(t).Lines([]callout.Target{hooks[0].target})[0]
	_, err := chain.InterpretHealth(object(1))
	want := `webhook "workloads.example.com" of ResourceInterpreterWebhookConfiguration "workloads", InterpretHealth of Workload "shop/web": the name "nowhere.invalid" does not resolve`
	if err == nil || err.Error() != want || interpret.RetryDelayOf(err) <= 0 || !strings.Contains(interpret.ErrorSentences(err), "Check clientConfig") {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestTheFirstWebhookThatMatchesIsAsked(t *testing.T) {
	const all = configv1alpha1.InterpreterOperationAll
	health, retain := configv1alpha1.InterpreterOperationInterpretHealth, configv1alpha1.InterpreterOperationRetain
	deleted := configurationOf("a", hookAt("deleted.example.com", "https://a", all, "*"))
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, c := range map[string]struct {
		configurations []configv1alpha1.ResourceInterpreterWebhookConfiguration
		kind           string
		want           map[configv1alpha1.InterpreterOperation]string
	}{
		"none":                     {kind: "Workload"},
		"another kind":             {configurations: []configv1alpha1.ResourceInterpreterWebhookConfiguration{configurationOf("a", hookAt("x.example.com", "https://a", health, "Other"))}, kind: "Workload"},
		"one that is deleted":      {configurations: []configv1alpha1.ResourceInterpreterWebhookConfiguration{deleted}, kind: "Workload"},
		"by configuration":         {configurations: []configv1alpha1.ResourceInterpreterWebhookConfiguration{configurationOf("b", hookAt("a.example.com", "https://a", health, "*")), configurationOf("a", hookAt("z.example.com", "https://a", health, "Workload"))}, kind: "Workload", want: map[configv1alpha1.InterpreterOperation]string{health: "z.example.com"}},
		"from top to bottom":       {configurations: []configv1alpha1.ResourceInterpreterWebhookConfiguration{configurationOf("a", hookAt("z.example.com", "https://a", health, "*"), hookAt("a.example.com", "https://a", health, "*"))}, kind: "Workload", want: map[configv1alpha1.InterpreterOperation]string{health: "z.example.com"}},
		"each operation by itself": {configurations: []configv1alpha1.ResourceInterpreterWebhookConfiguration{configurationOf("a", hookAt("x.example.com", "https://a", health, "*")), configurationOf("b", hookAt("y.example.com", "https://a", retain, "*"))}, kind: "Workload", want: map[configv1alpha1.InterpreterOperation]string{health: "x.example.com", retain: "y.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			kind := workload()
			kind.Kind = c.kind
			got := map[configv1alpha1.InterpreterOperation]string{}
			webhooks := NewWebhooks(c.configurations, newCaller(t))
			for operation, h := range webhooks.chooseWebhooks(kind) {
				got[operation] = h.name
			}
			if len(got)+len(c.want) > 0 {
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			}
			if !webhooks.SameForKind(NewWebhooks(c.configurations, newCaller(t)), kind) || webhooks.SameForKind(nil, kind) != (len(c.want) == 0) {
				t.Error("it does not know whether something has changed")
			}
		})
	}
	if custom := NewWebhooks([]configv1alpha1.ResourceInterpreterWebhookConfiguration{configurationOf("a", hookAt("x.example.com", "https://a", all, "*"))}, newCaller(t)).Operations(workload()).Custom; custom.Replicas == nil ||
		custom.Components == nil || custom.Revise == nil || custom.Retain == nil || custom.Reflect == nil || custom.Aggregate == nil || custom.Verdict == nil || custom.Dependencies == nil {
		t.Error("an operation is missing of a webhook for all")
	}
}
