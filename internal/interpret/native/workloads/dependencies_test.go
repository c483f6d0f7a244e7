// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native/workloads"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// references fills a pod with one of all that it can have, and notes the objects that it
// then refers to.
type references []interpret.Dependency

func (r *references) fill(value reflect.Value, within string) {
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		r.fill(value.Elem(), within)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		r.fill(value.Index(0), within)
	case reflect.Struct:
		if value.Type().PkgPath() == reflect.TypeFor[corev1.PodSpec]().PkgPath() {
			r.fields(value, within)
		}
	}
}

func (r *references) fields(value reflect.Value, within string) {
	structure := value.Type().Name()
	for i := range value.NumField() {
		kind := kindOf(structure, within, value.Type().Field(i).Name)
		if kind == "" {
			r.fill(value.Field(i), structure)
			continue
		}
		name := fmt.Sprintf("n%03d", len(*r))
		value.Field(i).SetString(name)
		*r = append(*r, interpret.Dependency{APIVersion: "v1", Kind: kind, Namespace: "ns", Name: name})
	}
}

// kindOf returns the kind of which a field has a name, "" if it has none of what pods need.
func kindOf(structure, within, field string) string {
	switch {
	case field == "ServiceAccountName", field == "DeprecatedServiceAccount":
		return "ServiceAccount"
	case field == "ClaimName":
		return "PersistentVolumeClaim"
	case field == "SecretName":
		return "Secret"
	case structure != "LocalObjectReference" || field != "Name":
		return ""
	case strings.HasPrefix(within, "ConfigMap"):
		return "ConfigMap"
	}
	return "Secret"
}

// TestAPodNeedsAllThatItsTypeRefersTo: the judge is the type of Kubernetes, so that a
// reference that a new version brings is not forgotten.
func TestAPodNeedsAllThatItsTypeRefersTo(t *testing.T) {
	t.Parallel()
	pod, want := corev1.PodSpec{}, references{}
	want.fill(reflect.ValueOf(&pod).Elem(), "")
	if len(want) < 20 {
		t.Fatalf("only %d references of a pod are known", len(want))
	}
	order := []string{"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"}
	slices.SortFunc(want, func(a, b interpret.Dependency) int {
		return cmp.Or(slices.Index(order, a.Kind)-slices.Index(order, b.Kind), strings.Compare(a.Name, b.Name))
	})
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	expect.NoError(t, err)
	if diff := gocmp.Diff([]interpret.Dependency(want), workloads.PodDependencies(spec, "ns")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
