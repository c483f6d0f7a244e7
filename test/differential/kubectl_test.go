// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/kubectl/pkg/cmd/wait"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"github.com/capstan-io/capstan/internal/interpret/health"
)

// rolledOut is the verdict of 'kubectl rollout status', which fails for a rollout that has failed.
func rolledOut(t *testing.T, u *unstructured.Unstructured) health.Status {
	t.Helper()
	viewer, err := polymorphichelpers.StatusViewerFor(u.GroupVersionKind().GroupKind())
	if err != nil {
		t.Fatal(err)
	}
	_, done, err := viewer.Status(u, 0)
	switch {
	case err != nil && done: // no rollout that kubectl could watch
		t.Fatal(err)
		return health.Unknown
	case err != nil:
		return health.Degraded
	default:
		return healthyIf(done)
	}
}

// waited is the verdict of 'kubectl wait --for=condition=NAME --timeout=0', which looks at the object once.
func waited(t *testing.T, u *unstructured.Unstructured, condition string) health.Status {
	t.Helper()
	config := genericclioptions.NewConfigFlags(false)
	config.KubeConfig, config.APIServer = new(os.DevNull), new("https://hub.example.com") // where nobody asks
	flags := wait.NewWaitFlags(config, genericiooptions.NewTestIOStreamsDiscard())
	flags.ForCondition, flags.Timeout = []string{"condition=" + condition}, 0
	options, err := flags.ToOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	kind := u.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	options.DynamicClient = fake.NewSimpleDynamicClient(runtime.NewScheme(), u)
	options.ResourceFinder = genericclioptions.NewSimpleFakeResourceFinder(&resource.Info{
		Name: u.GetName(), Mapping: &meta.RESTMapping{Resource: plural, GroupVersionKind: kind, Scope: meta.RESTScopeRoot},
	})
	switch err := options.RunWaitContext(t.Context()); {
	case err == nil:
		return health.Healthy
	case strings.HasPrefix(err.Error(), "condition not met"):
		return health.Progressing
	default:
		t.Fatal(err)
		return health.Unknown
	}
}

func healthyIf(well bool) health.Status {
	if well {
		return health.Healthy
	}
	return health.Progressing
}
