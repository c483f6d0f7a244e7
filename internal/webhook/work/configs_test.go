// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestConfigsAreCompiledAtAdmission(t *testing.T) {
	ignoring := func(field workv1.IgnoreField) workv1.ManifestConfigOption {
		return workv1.ManifestConfigOption{UpdateStrategy: &workv1.UpdateStrategy{
			Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{IgnoreFields: []workv1.IgnoreField{field}},
		}}
	}
	reporting := func(path string) workv1.ManifestConfigOption {
		return workv1.ManifestConfigOption{FeedbackRules: []workv1.FeedbackRule{{
			Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{{Name: "x", Path: path}},
		}}}
	}
	rule := func(condition, message string, expressions ...string) workv1.ManifestConfigOption {
		return workv1.ManifestConfigOption{ConditionRules: []workv1.ConditionRule{{
			Condition: condition, Type: workv1.ConditionRuleTypeCEL, CELExpressions: expressions, MessageExpression: message,
		}}}
	}
	unused := ignoring(workv1.IgnoreField{JSONPaths: []string{".["}})
	unused.UpdateStrategy.Type = workv1.UpdateStrategyTypeUpdate
	cases := map[string]struct {
		reason  string
		config  workv1.ManifestConfigOption
		err     string
		warning string
	}{
		"nothing is fine":          {},
		"good expressions are":     {config: ignoring(workv1.IgnoreField{JSONPaths: []string{".spec.replicas"}, JSONPointers: []string{"/a"}, JQPathExpressions: []string{".a[]"}})},
		"good rules are":           {config: rule("Progressing", "'it is ' + string(result)", "object.status.ready")},
		"good feedback is":         {config: reporting(".status.phase")},
		"a wrong JSONPath":         {config: ignoring(workv1.IgnoreField{JSONPaths: []string{".["}}), err: `spec.manifestConfigs[0]: updateStrategy.serverSideApply.ignoreFields[0].jsonPaths: ".[": it is not a JSONPath`},
		"a wrong JSON pointer":     {config: ignoring(workv1.IgnoreField{JSONPointers: []string{"spec"}}), err: `jsonPointers: "spec": a JSON pointer starts with a slash`},
		"a wrong jq expression":    {config: ignoring(workv1.IgnoreField{JQPathExpressions: []string{".a |"}}), err: `jqPathExpressions: ".a |": it is not a jq expression`},
		"a jq loop":                {config: ignoring(workv1.IgnoreField{JQPathExpressions: []string{"def f: f; f"}}), err: "it must not define functions"},
		"options without a use":    {config: unused, warning: "spec.manifestConfigs[0].updateStrategy.serverSideApply has no effect with type Update"},
		"a wrong path of feedback": {reason: "the object is applied all the same", config: reporting(".["), warning: "spec.manifestConfigs[0].feedbackRules[0].jsonPaths[0] will report nothing: "},
		"a wrong rule":             {reason: "the object is applied all the same", config: rule("Ready", "", "object.", "true"), warning: `spec.manifestConfigs[0].conditionRules: condition "Ready": `},
		"a rule of no boolean":     {config: rule("Ready", "", "1 + 1"), warning: `condition "Ready": `},
		"a rule without any":       {config: rule("Ready", ""), warning: `condition "Ready": The rule has type CEL and no celExpressions`},
		"a wrong message":          {config: rule("Ready", "1 +", "true"), warning: `condition "Ready": The rule's messageExpression is not valid`},
		"a condition of the agent": {config: rule("Applied", "", "true"), warning: `condition "Applied" is reserved by the agent`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := &workValidator{specRules: specRules{sizeMax: workv1.ManifestsSizeMax}}
			work := &workv1.ManifestWork{}
			work.Name = "w"
			work.Spec.Workload.Manifests = manifests(configMap("a", "x"))
			work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{tc.config}
			warnings, err := v.ValidateCreate(t.Context(), work)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want one with %q", err, tc.err)
			}
			got := strings.Join(warnings, "|")
			if (got == "") != (tc.warning == "") || !strings.Contains(got, tc.warning) || strings.Contains(got, "\n") {
				t.Errorf("got warnings %q, want one with %q. %s", got, tc.warning, tc.reason)
			}
		})
	}
}

func TestWarningsAreLimited(t *testing.T) {
	wrong := workv1.ManifestConfigOption{FeedbackRules: []workv1.FeedbackRule{{JSONPaths: make([]workv1.JSONPath, warningsMax+3)}}}
	for i := range wrong.FeedbackRules[0].JSONPaths {
		wrong.FeedbackRules[0].JSONPaths[i].Path = ".["
	}
	warnings, err := checkConfigs("spec", []workv1.ManifestConfigOption{wrong})
	if err != nil || len(warnings) != warningsMax+1 {
		t.Fatalf("got %d warnings, %v", len(warnings), err)
	}
	if diff := cmp.Diff("3 more warnings", warnings[warningsMax]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestManyExpressionsOfAWorkAreNotCompiled asks with so many that compiling them would
// keep the webhook from everybody else: none of them is right, and nothing says so.
func TestManyExpressionsOfAWorkAreNotCompiled(t *testing.T) {
	reports := func(count int, path string) workv1.ManifestConfigOption {
		rule := workv1.FeedbackRule{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: slices.Repeat([]workv1.JSONPath{{Path: path}}, count)}
		return workv1.ManifestConfigOption{FeedbackRules: []workv1.FeedbackRule{rule}}
	}
	holds := func(expression string) workv1.ManifestConfigOption {
		return workv1.ManifestConfigOption{ConditionRules: []workv1.ConditionRule{{Type: workv1.ConditionRuleTypeCEL, CELExpressions: []string{expression}}}}
	}
	ignores := workv1.ManifestConfigOption{UpdateStrategy: &workv1.UpdateStrategy{
		Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{IgnoreFields: []workv1.IgnoreField{{JSONPaths: []string{strings.Repeat("(", 200<<10)}}}},
	}}
	for name, configs := range map[string][]workv1.ManifestConfigOption{
		"paths":         {reports(600, "{"), reports(401, "{")},
		"a long path":   {reports(1, strings.Repeat("{", 200<<10))},
		"a long rule":   {holds(strings.Repeat("(", 200<<10))},
		"what it skips": {ignores},
	} {
		warnings, err := checkConfigs("spec", configs)
		if err == nil || !strings.Contains(err.Error(), "divide the work") || len(warnings) > 0 {
			t.Errorf("%s: warnings %q, error %.200v", name, warnings, err)
		}
	}
	if _, err := checkConfigs("spec", []workv1.ManifestConfigOption{reports(expressionsMax, ".status.phase")}); err != nil {
		t.Errorf("as many as may be are refused: %v", err)
	}
}

// TestOrphaningRulesNameResources has rules by which the objects that are to stay would be
// deleted.
func TestOrphaningRulesNameResources(t *testing.T) {
	for name, test := range map[string]struct {
		rule         workv1.OrphaningRule
		err, warning string
	}{
		"a resource":             {rule: workv1.OrphaningRule{Resource: "configmaps", Name: "a"}},
		"a resource of a group":  {rule: workv1.OrphaningRule{Group: "apps", Resource: "deployments", Name: "*"}},
		"a kind":                 {rule: workv1.OrphaningRule{Resource: "ConfigMap", Name: "a"}, err: `spec.deleteOption.selectivelyOrphans.orphaningRules[0].resource: "ConfigMap" is not a resource: want the plural name of the kind in lower case, such as "configmaps"`},
		"a kind of a group":      {rule: workv1.OrphaningRule{Group: "networking.k8s.io", Resource: "NetworkPolicy", Name: "a"}, err: `such as "networkpolicies"`},
		"a resource in capitals": {rule: workv1.OrphaningRule{Resource: "ConfigMaps", Name: "a"}, err: `"ConfigMaps" is not a resource`},
		"with its group":         {rule: workv1.OrphaningRule{Resource: "deployments.apps", Name: "a"}, err: "with the API group in group"},
		"nothing":                {rule: workv1.OrphaningRule{Name: "a"}, err: `"" is not a resource`},
		"a kind in lower case":   {rule: workv1.OrphaningRule{Resource: "configmap", Name: "a"}, warning: `"configmap" looks like a kind, and then no object stays: its resource should be "configmaps"`},
		"what has one name":      {rule: workv1.OrphaningRule{Resource: "endpoints", Name: "a"}},
		"of another group":       {rule: workv1.OrphaningRule{Group: "example.io", Resource: "configmap", Name: "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &workv1.ManifestWorkSpec{DeleteOption: &workv1.DeleteOption{
				PropagationPolicy:  workv1.DeletePropagationPolicySelectivelyOrphan,
				SelectivelyOrphans: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{test.rule}},
			}}
			for _, kind := range []string{"ConfigMap", "Endpoints"} {
				spec.Workload.Manifests = append(spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{
					Raw: []byte(`{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"a","namespace":"b"}}`),
				}})
			}
			rules := &specRules{sizeMax: 1 << 20}
			warnings, _, err := rules.checkSpec("spec", spec)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("the error is %v, want %q", err, test.err)
			}
			if got := strings.Join(warnings, "; "); !strings.Contains(got, test.warning) || test.warning == "" && got != "" {
				t.Errorf("the warnings are %q, want %q", got, test.warning)
			}
			if test.err == "" {
				return
			}
			spec.DeleteOption.SelectivelyOrphans.OrphaningRules[0].Group, spec.DeleteOption.SelectivelyOrphans.OrphaningRules[0].Resource = "", "configmaps"
			if _, _, err := rules.checkSpec("spec", spec); err != nil {
				t.Errorf("the rule is right now, and refused: %v", err)
			}
		})
	}
}
