// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// benchmarked are manifests of two sizes.
func benchmarked(b *testing.B) map[string][]byte {
	b.Helper()
	var env []string
	for i := range 20 << 10 / 60 {
		env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%04d","value":"%s"}`, i, strings.Repeat("v", 24)))
	}
	manifests := map[string][]byte{
		"configmap1KiB": []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"},"data":{"k":"` + strings.Repeat("x", 1024) + `"}}`),
		"deployment20KiB": []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","labels":{"a":"b"}},"spec":{"replicas":2,` +
			`"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[` +
			strings.Join(env, ",") + `]}]}}}}`),
	}
	if size := len(manifests["deployment20KiB"]); size < 20<<10 {
		b.Fatalf("the deployment has %d bytes only", size)
	}
	return manifests
}

func BenchmarkHash(b *testing.B) {
	for name, raw := range benchmarked(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				HashManifest(raw)
			}
		})
	}
}

// BenchmarkRead is what a changed work costs for each manifest; it hashes, too.
func BenchmarkRead(b *testing.B) {
	for name, raw := range benchmarked(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseManifest(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBody is what a write costs beside the request.
func BenchmarkBody(b *testing.B) {
	stamp := Stamp{Label: "l", Namespace: "n", Owners: []metav1.OwnerReference{{APIVersion: "w/v1", Kind: "A", Name: "n", UID: "u"}}}
	without := stamp
	without.Without = []ignore.Path{{"spec", "replicas"}}
	for name, raw := range benchmarked(b) {
		for variant, stamp := range map[string]Stamp{"": stamp, "WithoutAField": without} {
			b.Run(name+variant, func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := RenderBody(b.Context(), raw, stamp); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
