// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package customized

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// everything customizes all that can be, of a kind of its own.
const everything = `
metadata: {name: workload}
spec:
  target: {apiVersion: example.com/v1, kind: Workload}
  customizations:
    retention:
      luaScript: |
        function Retain(desiredObj, observedObj)
          desiredObj.spec.paused = observedObj.spec.paused
          return desiredObj
        end
    replicaResource:
      luaScript: |
        local kube = require("kube")
        function GetReplicas(obj)
          return obj.spec.workers, kube.accuratePodRequirements(obj.spec.template)
        end
    componentResource:
      luaScript: |
        function GetComponents(obj)
          return {{name = "head", replicas = 1}, {name = "worker", replicas = obj.spec.workers, replicaRequirements = {resourceRequest = {cpu = "2"}}}}
        end
    replicaRevision:
      luaScript: |
        function ReviseReplica(obj, desiredReplica)
          obj.spec.workers = desiredReplica
          return obj
        end
    statusReflection:
      luaScript: |
        function ReflectStatus(observedObj)
          return {ready = observedObj.status.ready, conditions = observedObj.status.conditions}
        end
    statusAggregation:
      luaScript: |
        function AggregateStatus(desiredObj, statusItems)
          desiredObj.status = desiredObj.status or {}
          desiredObj.status.ready, desiredObj.status.clusters = 0, {}
          for i, item in ipairs(statusItems) do
            if item.status ~= nil then
              desiredObj.status.ready = desiredObj.status.ready + item.status.ready
            end
            desiredObj.status.clusters[i] = item.clusterName .. "=" .. item.health .. "," .. tostring(item.applied) .. "," .. tostring(item.appliedMessage)
          end
          return desiredObj
        end
    healthInterpretation:
      luaScript: |
        function InterpretHealth(observedObj)
          return observedObj.status.ready == observedObj.spec.workers
        end
    dependencyInterpretation:
      luaScript: |
        function GetDependencies(desiredObj)
          local all = kube.getPodDependencies(desiredObj.spec.template, desiredObj.metadata.namespace)
          all[#all + 1] = {apiVersion = "example.com/v1", kind = "Queue", namespace = "queues", labelSelector = {matchLabels = {of = desiredObj.metadata.name}}}
          return all
        end
`

// another says of the same kind what else it depends on.
const another = `
metadata: {name: x-dependencies}
spec:
  target: {apiVersion: example.com/v1, kind: Workload}
  customizations:
    dependencyInterpretation:
      luaScript: |
        function GetDependencies(desiredObj)
          return {{apiVersion = "v1", kind = "ConfigMap", namespace = "shop", name = "settings"}, {apiVersion = "v1", kind = "Secret", namespace = "shop", name = "more"}}
        end
`

func read(t testing.TB, text string) *configv1alpha1.ResourceInterpreterCustomization {
	t.Helper()
	c := &configv1alpha1.ResourceInterpreterCustomization{}
	expect.NoError(t, sigsyaml.UnmarshalStrict([]byte(text), c))
	return c
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	expect.NoError(t, sigsyaml.Unmarshal([]byte(text), &o))
	for _, part := range []string{"spec", "status"} { // numbers as the API machinery decodes them
		fields, _ := o[part].(map[string]any)
		for name, value := range fields {
			if number, is := value.(float64); is {
				fields[name] = int64(number)
			}
		}
	}
	return o
}

// known returns what customizations say of their kind.
func known(t *testing.T, texts ...string) interpret.CustomOperations {
	t.Helper()
	var all []lua.Customization
	for _, text := range texts {
		c := read(t, text)
		if wrong := CheckScripts(c); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		all = append(all, LuaCustomizationOf(c))
	}
	machine := lua.NewMachine(func() time.Time { return time.Unix(0, 0) })
	return machine.NewLayer(all).Operations(TargetKind(read(t, texts[0]))).Custom
}

const workload = `
metadata: {name: w, namespace: shop}
spec:
  workers: 3
  template: {spec: {containers: [{name: a, resources: {requests: {cpu: 500m}}, envFrom: [{configMapRef: {name: settings}}]}]}}
status: {ready: 2, conditions: []}
`

// TestEveryOperation runs the luaScript of each operation.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	custom := known(t, everything)
	for operation, has := range map[lua.Operation]bool{
		lua.Retention: custom.Retain != nil, lua.ReplicaResource: custom.Replicas != nil, lua.ComponentResource: custom.Components != nil,
		lua.ReplicaRevision: custom.Revise != nil, lua.StatusReflection: custom.Reflect != nil, lua.HealthInterpretation: custom.Verdict != nil,
		lua.StatusAggregation: custom.Aggregate != nil, lua.DependencyInterpretation: custom.Dependencies != nil,
	} {
		if !has {
			t.Fatalf("nothing is said for %s", operation)
		}
	}
	given := object(t, workload)
	check := func(what string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
	observed := object(t, workload)
	observed["spec"].(map[string]any)["paused"] = true
	retained, err := custom.Retain(given, observed)
	check("retention", observed, retained, err)

	replicas, needs, err := custom.Replicas(given)
	cpu := func(text string) *interpret.Requirements {
		return &interpret.Requirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(text)}}
	}
	check("replicas", int32(3), replicas, err)
	check("requirements", cpu("500m"), needs, nil)

	components, err := custom.Components(given)
	check("components", []interpret.Component{{Name: "head", Replicas: 1}, {Name: "worker", Replicas: 3, Needs: cpu("2")}}, components, err)

	revised, err := custom.Revise(given, 7)
	want := object(t, workload)
	want["spec"].(map[string]any)["workers"] = int64(7)
	check("revision", want, revised, err)

	status, err := custom.Reflect(given)
	check("reflection", map[string]any{"ready": int64(2), "conditions": []any{}}, status, err)

	verdict, err := custom.Verdict(given)
	check("health", interpret.Unhealthy, verdict, err)

	sum, err := custom.Aggregate(given, []interpret.ClusterItem{
		{Cluster: "a", Status: map[string]any{"ready": int64(2)}, Applied: true, Health: interpret.Healthy}, {Cluster: "b", Message: "no room", Health: interpret.Unknown},
	})
	check("aggregation", map[string]any{"ready": int64(2), "conditions": []any{}, "clusters": []any{"a=Healthy,true,nil", "b=Unknown,false,no room"}}, sum, err)

	dependencies, err := custom.Dependencies(given)
	queue := interpret.Dependency{APIVersion: "example.com/v1", Kind: "Queue", Namespace: "queues", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": "w"}}}
	settings := interpret.Dependency{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
	check("dependencies", []interpret.Dependency{settings, queue}, dependencies, err)
	check("nothing is changed", object(t, workload), given, nil)

	custom = known(t, everything, another)
	dependencies, err = custom.Dependencies(given)
	more := interpret.Dependency{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "more"}
	check("dependencies of two customizations", []interpret.Dependency{settings, queue, more}, dependencies, err)
}

// TestTheTargetIsWhatIsCustomized asks about objects of the target, and of kinds that
// differ from it in the kind or in the apiVersion only.
func TestTheTargetIsWhatIsCustomized(t *testing.T) {
	t.Parallel()
	const all = `metadata: {name: workloads}
spec:
  target: {apiVersion: example.com/v1, kind: Workload}
  customizations: {healthInterpretation: {luaScript: "function InterpretHealth(observedObj) return false end"}}`
	chain := interpret.Chain{lua.NewMachine(time.Now).NewLayer([]lua.Customization{LuaCustomizationOf(read(t, all))})}
	for name, c := range map[string]struct{ apiVersion, kind, want string }{
		"the target":       {"example.com/v1", "Workload", interpret.Unhealthy},
		"a later version":  {"example.com/v2", "Workload", interpret.Healthy},
		"of another group": {"example.org/v1", "Workload", interpret.Healthy},
		"beside it":        {"example.com/v1", "Task", interpret.Healthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			verdict, err := chain.InterpretHealth(&unstructured.Unstructured{Object: map[string]any{"apiVersion": c.apiVersion, "kind": c.kind}})
			if err != nil || verdict != c.want {
				t.Errorf("got %q, %v, want %q", verdict, err, c.want)
			}
		})
	}
}

// TestDependenciesAreThereOnce has scripts list some several times, and some that are alike.
func TestDependenciesAreThereOnce(t *testing.T) {
	t.Parallel()
	const list = `function GetDependencies(a)
  return {
    {apiVersion = 'v1', kind = 'Secret', namespace = 'shop', name = 'b'},
    {apiVersion = 'v1', kind = 'Secret', namespace = 'shop', name = 'a'},
    {apiVersion = 'v1', kind = 'Secret', namespace = 'shop', name = 'b'},
    {apiVersion = 'v1', kind = 'Secret', namespace = 'other', name = 'b'},
    {apiVersion = 'v1', kind = 'ConfigMap', namespace = 'shop', name = 'b'},
    {apiVersion = 'v1', kind = 'Secret', namespace = 'shop', labelSelector = {matchLabels = {x = '1', y = '2'}}},
    {apiVersion = 'v1', kind = 'Secret', namespace = 'shop', labelSelector = {matchLabels = {y = '2', x = '1'}}},
    {apiVersion = 'v1', kind = 'Secret', namespace = 'shop', labelSelector = {matchLabels = {x = '1'}}},
  }
end`
	scripts := map[lua.Operation]string{lua.DependencyInterpretation: list}
	for name, all := range map[string][]lua.Customization{
		"of one script": {{Name: "c", Scripts: scripts}}, "of two": {{Name: "c", Scripts: scripts}, {Name: "d", Scripts: scripts}},
	} {
		custom := lua.NewMachine(time.Now).NewLayer(all).Operations(TargetKind(&configv1alpha1.ResourceInterpreterCustomization{})).Custom
		found, err := custom.Dependencies(object(t, workload))
		expect.NoError(t, err)
		var got []string
		for _, d := range found {
			got = append(got, d.Kind+" "+d.Namespace+"/"+d.Name+" "+metav1.FormatLabelSelector(d.Selector))
		}
		want := []string{
			"Secret shop/b <none>", "Secret shop/a <none>", "Secret other/b <none>", "ConfigMap shop/b <none>", "Secret shop/ x=1,y=2", "Secret shop/ x=1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheNamespaceOfRequirementsIsKept has a script say where the pods are.
func TestTheNamespaceOfRequirementsIsKept(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]*interpret.Requirements{
		"return 1, {namespace = 'jobs'}":                             {Namespace: "jobs"},
		"return 1, {namespace = 'jobs', priorityClassName = 'high'}": {Namespace: "jobs", PriorityClassName: "high"},
		"return 1, {namespace = ''}":                                 nil,
		"local kube = require('kube') local r = kube.accuratePodRequirements({spec = {}}) or {} r.namespace = 'x' return 1, r": {Namespace: "x"},
	} {
		custom := lua.NewMachine(time.Now).NewLayer([]lua.Customization{{
			Name: "c", Scripts: map[lua.Operation]string{lua.ReplicaResource: "function GetReplicas(a) " + body + " end"},
		}}).Operations(TargetKind(&configv1alpha1.ResourceInterpreterCustomization{})).Custom
		_, needs, err := custom.Replicas(object(t, workload))
		if diff := cmp.Diff(want, needs); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

// TestWrongAnswers has scripts return what their operation does not.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		operation lua.Operation
		body      string
		want      string
	}{
		"no object":                    {lua.Retention, "return 'x'", `it returns the string "x", want the object`},
		"nothing":                      {lua.ReplicaRevision, "", "it returns nil, want the object"},
		"replicas as a text":           {lua.ReplicaResource, "return '3'", `it returns the string "3", want a whole number of replicas`},
		"half a replica":               {lua.ReplicaResource, "return 0.5", "it returns 0.5, want a whole number of replicas"},
		"replicas below zero":          {lua.ReplicaResource, "return -1", "it returns -1, want a whole number of replicas"},
		"too many replicas":            {lua.ReplicaResource, "return 2147483648", "it returns 2147483648, want a whole number of replicas"},
		"requirements with a typo":     {lua.ReplicaResource, "return 1, {resourceRequests = {cpu = '1'}}", `what it returns as requirements of a pod is none: strict decoding error: unknown field "resourceRequests"`},
		"requirements of a text":       {lua.ReplicaResource, "return 1, 'cpu'", `what it returns as requirements of a pod is none: it returns the string "cpu", want a table with names as keys`},
		"a component without a name":   {lua.ComponentResource, "return {{replicas = 1}}", "component 1 has no name"},
		"a component without a number": {lua.ComponentResource, "return {{name = 'a', replicas = 'x'}}", `replicas of component "a": it returns the string "x", want a whole number of replicas`},
		"components as one":            {lua.ComponentResource, "return {name = 'a'}", "it returns a table with names as keys, want a list of components"},
		"a status that is a list":      {lua.StatusReflection, "return {1}", "it returns a list, want a status, which is a table with names as keys"},
		"another object": {
			lua.Retention, "a.metadata.name = 'other' return a", `it returns another object: metadata.name is "other", want "w"`,
		},
		"health as a word":            {lua.HealthInterpretation, "return 'Healthy'", `it returns the string "Healthy", want true or false`},
		"no health":                   {lua.HealthInterpretation, "return nil", "it returns nil, want true or false"},
		"a dependency without a name": {lua.DependencyInterpretation, "return {{apiVersion = 'v1', kind = 'Secret'}}", `reference 1 is {"apiVersion":"v1","kind":"Secret"}, want apiVersion, kind, and either name or labelSelector`},
		"a dependency of all sorts":   {lua.DependencyInterpretation, "return {'a'}", `entry 1: it returns the string "a", want a table with names as keys`},
		"more dependencies than at most": {
			lua.DependencyInterpretation, "local l = {} for i = 1, 1001 do l[i] = {apiVersion = 'v1', kind = 'Secret', name = 's' .. i} end return l", "it returns 1001 references, more than 1000",
		},
		"a mistake": {lua.StatusAggregation, "\nreturn nothing.there", "line 2: attempt to index a non-table object(nil) with key 'there'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			custom := lua.NewMachine(time.Now).NewLayer([]lua.Customization{{
				Name: "c", Scripts: map[lua.Operation]string{c.operation: "function " + c.operation.FunctionName() + "(a, b) " + c.body + " end"},
			}}).Operations(TargetKind(&configv1alpha1.ResourceInterpreterCustomization{})).Custom
			given := object(t, workload)
			var err error
			switch c.operation {
			case lua.Retention:
				_, err = custom.Retain(given, given)
			case lua.ReplicaRevision:
				_, err = custom.Revise(given, 1)
			case lua.ReplicaResource:
				_, _, err = custom.Replicas(given)
			case lua.ComponentResource:
				_, err = custom.Components(given)
			case lua.StatusReflection:
				_, err = custom.Reflect(given)
			case lua.StatusAggregation:
				_, err = custom.Aggregate(given, nil)
			case lua.HealthInterpretation:
				_, err = custom.Verdict(given)
			default:
				_, err = custom.Dependencies(given)
			}
			if want := `ResourceInterpreterCustomization "c", ` + string(c.operation) + ": " + c.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestCheckNamesEachScript(t *testing.T) {
	t.Parallel()
	c := read(t, `
spec:
  target: {apiVersion: example.com/v1, kind: Workload}
  customizations:
    retention: {luaScript: "function Retain(a, b) return a end"}
    replicaRevision: {luaScript: "function ReviseReplica(a, b)\n return a"}
    healthInterpretation: {luaScript: "function Health() end"}
`)
	var got []string
	for _, wrong := range CheckScripts(c) {
		got = append(got, wrong.Error())
	}
	want := []string{
		"spec.customizations.replicaRevision.luaScript: Invalid value: it ends too early: is an 'end' missing?",
		"spec.customizations.healthInterpretation.luaScript: Invalid value: it has no function InterpretHealth: begin it with 'function InterpretHealth(...)', not local",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	const rest = "  customizations: {retention: {luaScript: a}, healthInterpretation: {luaScript: a}, dependencyInterpretation: {luaScript: a}}"
	other := *read(t, "metadata: {name: other}\nspec:\n  target: {apiVersion: example.com/v1, kind: Workload}\n"+rest)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"the same operation": {
			"metadata: {name: mine}\nspec: {target: {apiVersion: example.com/v1, kind: Workload}, customizations: {healthInterpretation: {luaScript: b}, replicaResource: {luaScript: b}}}",
			[]string{`spec.customizations.healthInterpretation: Forbidden: ResourceInterpreterCustomization "other" has a script for it already, for the same kind Workload of example.com/v1: change that one, or remove it from there first`},
		},
		"dependencies":     {"metadata: {name: mine}\nspec: {target: {apiVersion: example.com/v1, kind: Workload}, customizations: {dependencyInterpretation: {luaScript: b}}}", nil},
		"another version":  {"metadata: {name: mine}\nspec: {target: {apiVersion: example.com/v2, kind: Workload}, customizations: {retention: {luaScript: b}}}", nil},
		"another kind":     {"metadata: {name: mine}\nspec: {target: {apiVersion: example.com/v1, kind: Other}, customizations: {retention: {luaScript: b}}}", nil},
		"the same, itself": {"metadata: {name: other}\nspec: {target: {apiVersion: example.com/v1, kind: Workload}, customizations: {retention: {luaScript: b}}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, wrong := range ScriptConflicts(read(t, c.text), []configv1alpha1.ResourceInterpreterCustomization{other}) {
				got = append(got, wrong.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
