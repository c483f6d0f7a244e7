// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestFindKind(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{
		{Version: "v1"},
		{Group: "apps", Version: "v1"},
		{Group: "batch", Version: "v1"},
		{Group: "serving.example.com", Version: "v1"},
		{Group: "batch.example.com", Version: "v1alpha1"},
	})
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Service"},
		{Group: "serving.example.com", Version: "v1", Kind: "Service"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1beta1", Kind: "Deployment"},
		{Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "batch.example.com", Version: "v1alpha1", Kind: "Job"},
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	kinds := &Kinds{mapper: mapper}
	for name, want := range map[string]string{
		"deployment":                   "apps/v1, Kind=Deployment",
		"Deployment":                   "apps/v1, Kind=Deployment",
		"deployments":                  "apps/v1, Kind=Deployment",
		"deployments.apps":             "apps/v1, Kind=Deployment",
		"deployment.v1beta1.apps":      "apps/v1beta1, Kind=Deployment",
		"service":                      "/v1, Kind=Service",
		"services.serving.example.com": "serving.example.com/v1, Kind=Service",
		"jobs.batch":                   "batch/v1, Kind=Job",
		"jobs.batch.example.com":       "batch.example.com/v1alpha1, Kind=Job",
		"job":                          `error: "job" may be any of jobs.batch, jobs.batch.example.com`,
		"deploiment":                   `error: the hub serves no kind "deploiment"`,
		"deployments.batch":            `error: the hub serves no kind "deployments.batch"`,
		"":                             `error: the hub serves no kind ""`,
		"..":                           `error: the hub serves no kind ".."`,
	} {
		mapping, err := kinds.FindMapping(name)
		got := fmt.Sprintf("error: %v", err)
		if err == nil {
			got = mapping.GroupVersionKind.String()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}
