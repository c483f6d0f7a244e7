// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/jsonpath"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// kinds knows the kinds of Kubernetes.
func kinds() interpret.Chain { return interpret.Chain{native.NewKubernetesKinds()} }

// values reads what rules ask for.
func values(rules []workv1.FeedbackRule, o *unstructured.Unstructured, options feedback.ValueOptions) ([]workv1.FeedbackValue, []string) {
	found := feedback.CompileFeedbackRules(rules).ReadValues(o, kinds(), budget.NewBudget(clock.RealClock{}), options)
	return found.Values, found.Unread
}

// short writes values as lines of "name type value".
func short(t testing.TB, values []workv1.FeedbackValue) []string {
	t.Helper()
	var lines []string
	for _, v := range values {
		f := v.FieldValue
		var value any
		switch f.Type {
		case workv1.ValueTypeInteger:
			value = *f.Integer
		case workv1.ValueTypeString:
			value = *f.String
		case workv1.ValueTypeBoolean:
			value = *f.Boolean
		case workv1.ValueTypeJSONRaw:
			value = *f.JSONRaw
		}
		text, err := json.Marshal(value)
		expect.NoError(t, err)
		lines = append(lines, v.Name+" "+string(f.Type)+" "+string(text))
	}
	return lines
}

func TestWellKnownValuesOfEachKind(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		object string
		want   []string
	}{
		"Deployment": {
			reason: "the names are known to clients",
			object: `{apiVersion: apps/v1, kind: Deployment, status: {readyReplicas: 1, replicas: 3, availableReplicas: 2}}`,
			want:   []string{"ReadyReplicas Integer 1", "Replicas Integer 3", "AvailableReplicas Integer 2"},
		},
		"Deployment without a replica": {
			reason: "Kubernetes leaves zeros out, and so does the report",
			object: `{apiVersion: apps/v1, kind: Deployment, status: {observedGeneration: 1}}`,
		},
		"DaemonSet": {
			reason: "the names are known to clients",
			object: `{apiVersion: apps/v1, kind: DaemonSet, status: {numberReady: 1, desiredNumberScheduled: 3, numberAvailable: 0}}`,
			want:   []string{"NumberReady Integer 1", "DesiredNumberScheduled Integer 3", "NumberAvailable Integer 0"},
		},
		"Job": {
			reason: "JobComplete is a text",
			object: `{apiVersion: batch/v1, kind: Job, status: {succeeded: 1, conditions: [{type: Suspended, status: "False"}, {type: Complete, status: "True"}]}}`,
			want:   []string{`JobComplete String "True"`, "JobSucceeded Integer 1"},
		},
		"Pod": {
			reason: "PodReady is a text",
			object: `{apiVersion: v1, kind: Pod, status: {phase: Running, conditions: [{type: Ready, status: "False"}]}}`,
			want:   []string{`PodReady String "False"`, `PodPhase String "Running"`},
		},
		"StatefulSet": {
			reason: "ours",
			object: `{apiVersion: apps/v1, kind: StatefulSet, status: {readyReplicas: 1, replicas: 3, availableReplicas: 2, updatedReplicas: 0}}`,
			want:   []string{"ReadyReplicas Integer 1", "Replicas Integer 3", "AvailableReplicas Integer 2", "UpdatedReplicas Integer 0"},
		},
		"ReplicaSet": {
			reason: "ours",
			object: `{apiVersion: apps/v1, kind: ReplicaSet, status: {readyReplicas: 1, replicas: 3, availableReplicas: 2}}`,
			want:   []string{"ReadyReplicas Integer 1", "Replicas Integer 3", "AvailableReplicas Integer 2"},
		},
		"Service": {
			reason: "ours; the first address counts",
			object: `{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4, hostname: a.b}, {ip: 5.6.7.8}]}}}`,
			want:   []string{`ClusterIP String "10.0.0.1"`, `LoadBalancerIP String "1.2.3.4"`, `LoadBalancerHostname String "a.b"`},
		},
		"PersistentVolumeClaim": {
			reason: "ours",
			object: `{apiVersion: v1, kind: PersistentVolumeClaim, spec: {volumeName: pv1}, status: {phase: Bound, capacity: {storage: 1Gi}}}`,
			want:   []string{`PVCPhase String "Bound"`, `PVCCapacity String "1Gi"`, `PVCVolumeName String "pv1"`},
		},
		"CronJob": {
			reason: "ours",
			object: `{apiVersion: batch/v1, kind: CronJob, status: {lastScheduleTime: "2024-01-01T00:00:00Z", active: [{name: a}]}}`,
			want:   []string{`LastScheduleTime String "2024-01-01T00:00:00Z"`, "ActiveJobs Integer 1"},
		},
		"HorizontalPodAutoscaler": {
			reason: "ours",
			object: `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, status: {currentReplicas: 1, desiredReplicas: 2}}`,
			want:   []string{"CurrentReplicas Integer 1", "DesiredReplicas Integer 2"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := []workv1.FeedbackRule{{Type: workv1.FeedbackTypeWellKnownStatus}}
			values, messages := values(rules, build.ParseObject(t, c.object), feedback.ValueOptions{})
			if diff := cmp.Diff(c.want, short(t, values)); diff != "" || len(messages) > 0 {
				t.Errorf("%s: %s; messages %q", c.reason, diff, messages)
			}
		})
	}
}

const webDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, generation: 3, labels: {app: web, a.b/c: dotted}}
spec:
  paused: false
  template: {spec: {containers: [{name: a, image: x:1, resources: {limits: {cpu: 1}}}, {name: b, image: y:2}, {name: c, image: x:3}]}}
status:
  replicas: 3
  ratio: 0.75
  whole: 2.0
  nothing: null
  empty: []
  conditions:
  - {type: Available, status: "True", weight: 2}
  - {type: Progressing, status: "False", weight: 5}
`

func TestPathsFindScalars(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		path    string
		options feedback.ValueOptions
		want    string // "" for no value
		message string
	}{
		"a number":                  {path: ".status.replicas", want: "x Integer 3"},
		"a text":                    {path: ".metadata.name", want: `x String "web"`},
		"a boolean":                 {path: ".spec.paused", want: "x Boolean false"},
		"with root sign":            {path: "$.metadata.name", want: `x String "web"`},
		"a key in brackets":         {path: "['metadata'].name", want: `x String "web"`},
		"a key with dots":           {path: `.metadata.labels.a\.b/c`, want: `x String "dotted"`},
		"a key that is missing":     {path: ".status.readyReplicas"},
		"below a missing key":       {path: ".status.a.b[0].c"},
		"below a text":              {path: ".kind.x"},
		"null":                      {path: ".status.nothing"},
		"an index":                  {path: ".spec.template.spec.containers[1].name", want: `x String "b"`},
		"an index from the end":     {path: ".spec.template.spec.containers[-1].name", want: `x String "c"`},
		"an index beyond the end":   {path: ".spec.template.spec.containers[7].name"},
		"an index before the start": {path: ".spec.template.spec.containers[-7].name"},
		"the first of nothing":      {path: ".status.empty[0]"},
		"all":                       {path: ".spec.template.spec.containers[*].name", want: `x String "a"`},
		"a range":                   {path: ".spec.template.spec.containers[1:].name", want: `x String "b"`},
		"a union":                   {path: ".spec.template.spec.containers[2,0].name", want: `x String "c"`},
		"a filter":                  {path: `.status.conditions[?(@.type=="Progressing")].status`, want: `x String "False"`},
		"a filter by number":        {path: `.status.conditions[?(@.weight>2)].type`, want: `x String "Progressing"`},
		"a filter by existence":     {path: `.spec.template.spec.containers[?(@.resources)].name`, want: `x String "a"`},
		"a filter for nothing":      {path: `.status.conditions[?(@.type=="Nope")].status`},
		"a wildcard, by key order":  {path: ".metadata.labels.*", want: `x String "dotted"`},
		"everywhere":                {path: "..weight", want: "x Integer 2"},
		"a whole number as float":   {path: ".status.whole", want: "x Integer 2"},
		"a fraction":                {path: ".status.ratio", want: `x String "0.75"`},
		"a fraction with the gate":  {path: ".status.ratio", options: feedback.ValueOptions{RawJSON: true}, want: `x JsonRaw "0.75"`},
		"several with the gate": {
			path: ".spec.template.spec.containers[*].name", options: feedback.ValueOptions{RawJSON: true}, want: `x JsonRaw "[\"a\",\"b\",\"c\"]"`,
		},
		"a list with the gate":    {path: ".status.empty", options: feedback.ValueOptions{RawJSON: true}, want: `x JsonRaw "[]"`},
		"an object with the gate": {path: ".metadata.labels", options: feedback.ValueOptions{RawJSON: true}, want: `x JsonRaw "{\"a.b/c\":\"dotted\",\"app\":\"web\"}"`},
		"an object that is too long": {
			path: ".metadata.labels", options: feedback.ValueOptions{RawJSON: true, MaxRawJSON: 20},
			message: `value "x": its JSON is longer than 20 bytes, the limit; select a smaller part`,
		},
		"an object": {
			path:    ".metadata.labels",
			message: `value "x": it is an object, but only numbers, strings and booleans are reported unless feature gate RawFeedbackJsonString is on`,
		},
		"an index of a text":  {path: ".kind[0]", message: `value "x": path .kind[0]: there is a string where a list was expected`},
		"a filter of a text":  {path: ".kind[?(@.a==1)]", message: `value "x": path .kind[?(@.a==1)]: there is a string where a list was expected, and a filter needs a list`},
		"an order of types":   {path: `.status.conditions[?(@.weight>"a")].type`, message: `value "x": path .status.conditions[?(@.weight>"a")].type: a number and a string have no order`},
		"a path that is open": {path: ".a[", message: `value "x": path .a[ is not a JSONPath: unterminated array`},
		"no path":             {path: " ", message: `value "x": the path is empty`},
		"braces":              {path: "{.a}", message: `value "x": path {.a}: leave out the braces`},
		"two paths":           {path: ".a}{.b", message: `value "x": path .a}{.b: there must be one path, without text or braces around it`},
		"a range loop":        {path: "range .a[*]", message: `value "x": path range .a[*]: range and end are not possible here; use [*]`},
		"a bare word":         {path: "status.phase", message: `value "x": path status.phase: "status" is not understood; fields begin with a dot`},
		"a step of zero":      {path: ".status.conditions[0:2:0]", message: `value "x": path .status.conditions[0:2:0]: the step of a list index must be more than 0`},
		"an odd comparison":   {path: ".status.conditions[?(@.a=!1)]", message: `value "x": path .status.conditions[?(@.a=!1)]: "=!" does not compare; use ==, !=, <, <=, > or >=`},
		"a long path":         {path: "." + strings.Repeat("a", jsonpath.PathBytesMax), message: `value "x": path .` + strings.Repeat("a", 199) + `... is longer than 4096 bytes`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "x", Path: c.path}}}}
			values, messages := values(rules, build.ParseObject(t, webDeployment), c.options)
			if got := strings.Join(short(t, values), "; "); got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
			if got := strings.Join(messages, "; "); got != c.message {
				t.Errorf("want message\n%q, got\n%q", c.message, got)
			}
		})
	}
}
