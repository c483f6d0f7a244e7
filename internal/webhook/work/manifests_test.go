// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/webhook/advice"
)

func manifests(raw ...string) []workv1.Manifest {
	list := make([]workv1.Manifest, 0, len(raw))
	for _, r := range raw {
		list = append(list, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(r)}})
	}
	return list
}

// configMap returns the manifest of a ConfigMap.
func configMap(namespace, name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q}}`, namespace, name)
}

func TestManifestsAreObjectsThatCanBeFoundAgain(t *testing.T) {
	many := make([]string, problemsMax+5)
	for i := range many {
		many[i] = "[]"
	}
	cases := map[string]struct {
		reason    string
		manifests []workv1.Manifest
		sizeMax   int
		want      []string // parts of the error; none for no error
		advice    []string
	}{
		"objects are fine": {manifests: manifests(configMap("a", "x"), configMap("a", "y"))},
		"a name may be used again in another namespace": {manifests: manifests(configMap("a", "x"), configMap("b", "x"))},
		"and for another kind": {
			manifests: manifests(configMap("a", "x"), `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"a","name":"x"}}`),
		},
		"nor may one be nested without end": {
			reason:    "nobody could read a list of works with it",
			manifests: manifests(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`),
			want:      []string{"spec.workload.manifests[0]: it is nested more than 1000 levels deep"},
		},
		"a work has to have manifests": {want: []string{"spec.workload.manifests is empty: add at least one"}},
		"as many bytes as the limit are fine": {
			manifests: manifests(configMap("a", "x")), sizeMax: len(configMap("a", "x")),
		},
		"one byte more is too much": {
			manifests: manifests(configMap("a", "x"), configMap("a", "y")), sizeMax: 2*len(configMap("a", "x")) - 1,
			want:   []string{fmt.Sprintf("the size of manifests is %d bytes which exceeds the %d limit", 2*len(configMap("a", "x")), 2*len(configMap("a", "x"))-1)},
			advice: []string{"the manifests in spec.workload are too large together: spread them over several ManifestWorks"},
		},
		"one manifest that is too large alone is named": {
			reason:    "nobody can spread it over several works",
			manifests: manifests(`{}`, configMap("a", "x")), sizeMax: len(configMap("a", "x")) - 1,
			want: []string{fmt.Sprintf("the size of manifests is %d bytes which exceeds the %d limit", 2+len(configMap("a", "x")), len(configMap("a", "x"))-1)},
			advice: []string{fmt.Sprintf(`spec.workload.manifests[1], ConfigMap "a/x", has %d bytes, too many for any ManifestWork: make it smaller `+
				`(a CustomResourceDefinition does without descriptions in its schema), or let a propagation policy send it, for which this limit does not apply`, len(configMap("a", "x")))},
		},
		"even if it is no object": {
			manifests: manifests(`["x"]`), sizeMax: 4,
			want: []string{"the size of manifests is 5 bytes which exceeds the 4 limit"},
			advice: []string{`spec.workload.manifests[0] has 5 bytes, too many for any ManifestWork: make it smaller ` +
				`(a CustomResourceDefinition does without descriptions in its schema), or let a propagation policy send it, for which this limit does not apply`},
		},
		"a list is no object":    {manifests: manifests(`[1]`), want: []string{"spec.workload.manifests[0]: it is not an object"}},
		"a text is no object":    {manifests: manifests(`"x"`), want: []string{"[0]: it is not an object"}},
		"null is no object":      {manifests: manifests(``), want: []string{"[0]: it is not an object"}},
		"half an object is none": {manifests: manifests(`{"apiVersion":`), want: []string{"[0]: it cannot be parsed"}},
		"each missing field is named": {
			manifests: manifests(`{}`), want: []string{"[0]: it has no apiVersion, no kind, no metadata.name"},
		},
		"keys are case sensitive": {
			reason:    "the API server of the member holds Kind for an unknown field",
			manifests: manifests(`{"APIVERSION":"v1","Kind":"ConfigMap","metadata":{"Name":"x"}}`), want: []string{"no apiVersion, no kind, no metadata.name"},
		},
		"a generated name cannot be found again": {
			manifests: manifests(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"x-"}}`), want: []string{`the Pod has generateName "x-": set a name instead`},
		},
		"nor may generateName stand beside a name": {
			manifests: manifests(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"x-","name":"x"}}`), want: []string{"has generateName"},
		},
		"kubectl's List is taken apart by the user": {
			manifests: manifests(`{"apiVersion":"v1","kind":"List","items":[]}`), want: []string{"it is a List: add each of its items as a manifest instead"},
		},
		"a wrong apiVersion is refused": {
			manifests: manifests(`{"apiVersion":"a/b/c","kind":"X","metadata":{"name":"x"}}`), want: []string{`apiVersion is "a/b/c", want VERSION or GROUP/VERSION`},
		},
		"an object may not be there twice": {
			manifests: manifests(configMap("a", "x"), configMap("a", "y"), configMap("a", "x")),
			want:      []string{`spec.workload.manifests[2]: ConfigMap "a/x" is already in manifests[0]: remove one of them`},
		},
		"nor in two versions": {
			reason: "they are the same object of the member, and each would undo the other",
			manifests: manifests(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"}}`,
				`{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"x"}}`),
			want: []string{`manifests[1]: Deployment.apps "x" is already in manifests[0]`},
		},
		"all wrong manifests are told at once": {
			manifests: manifests(`[]`, configMap("a", "x"), `{}`), want: []string{"manifests[0]: it is not", "manifests[2]: it has no"},
		},
		"but not endlessly": {manifests: manifests(many...), want: []string{"manifests[9]:", "5 more invalid manifests"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.sizeMax == 0 {
				tc.sizeMax = workv1.ManifestsSizeMax
			}
			err := checkManifests("spec", tc.manifests, tc.sizeMax)
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("%s\ngot error %v, want parts %q", tc.reason, err, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s\ngot error %q, want one with %q", tc.reason, err, part)
				}
			}
			if diff := cmp.Diff(tc.advice, advice.WarningsFor(err)); diff != "" {
				t.Errorf("%s\nthe advice (-want +got):\n%s", tc.reason, diff)
			}
			if tc.advice != nil && err.Error() != tc.want[0] {
				t.Errorf("%s\ngot error %q: clients compare the whole of it, want %q", tc.reason, err, tc.want[0])
			}
		})
	}
}

func TestNamesLeaveRoomForTheMembersObject(t *testing.T) {
	if err := checkWorkName(strings.Repeat("a", workv1.ManifestWorkNameLengthMax)); err != nil {
		t.Errorf("the longest name: %v", err)
	}
	if err := checkWorkName(strings.Repeat("a", workv1.ManifestWorkNameLengthMax+1)); err == nil || !strings.Contains(err.Error(), "has 189 characters, at most 188 are allowed") {
		t.Errorf("got %v, want an error with both lengths", err)
	}
}

func FuzzIdentify(f *testing.F) {
	for _, seed := range []string{
		configMap("a", "x"), `{}`, `[]`, `null`, ``, `{"apiVersion":"v1","kind":"List","items":[{}]}`,
		`{"apiVersion":"a/b/c","kind":"X","metadata":{"name":"x"}}`, `{"metadata":[]}`, `{"metadata":{"name":1}}`, "{\"kind\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := identifyManifest(raw)
		again, errAgain := identifyManifest(raw)
		if o != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("read twice, it is %v and %v", o, again)
		}
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a reason")
			}
			return
		}
		if o.kind.Kind == "" || o.name == "" {
			t.Errorf("accepted %q without kind or name", raw)
		}
		if utf8.Valid(raw) && checkManifests("spec", manifests(string(raw), string(raw)), 2*len(raw)) == nil {
			t.Errorf("accepted %q twice", raw)
		}
	})
}
