// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregation leads requests for the APIs that the aggregated API server
// of a hub serves to that server, and finds out whether they arrive.
//
// APIServices are read and written by their names, and never listed: who writes
// any of them can put himself between all users and an API.
package aggregation

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

// automanaged is the label of an APIService that the API server has made for a
// CustomResourceDefinition.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// InstallAPIServices applies the APIServices of the hub, but for those that belong to others,
// and returns what the API server said of each before.
func InstallAPIServices(
	ctx context.Context, on *install.Target, h manifests.Hub, apply func(context.Context, *install.Target, ...render.Object) error,
) ([]status.APIService, error) {
	var found []status.APIService
	for _, object := range manifests.APIServices(h) {
		live, err := getLiveObject(ctx, on, object)
		if err != nil {
			return nil, err
		}
		service := status.APIService{Name: live.GetName(), Trouble: "the hub's API server has not processed it yet"}
		switch {
		case live.GetUID() == "":
		case !isOwnedByHub(live, h):
			service.Foreign = describeForeignOwner(live)
		default:
			service.Available, service.Trouble = apiServiceAvailable(live)
		}
		found = append(found, service)
		if service.Foreign != "" {
			continue
		}
		if err := apply(ctx, on, object); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// TrustedCABundles returns the CA bundles by which the hub's API server verifies the
// aggregated one now.
func TrustedCABundles(ctx context.Context, on *install.Target, h manifests.Hub) ([][]byte, error) {
	var bundles [][]byte
	for _, object := range manifests.APIServices(h) {
		live, err := getLiveObject(ctx, on, object)
		if err != nil {
			return nil, err
		}
		if live.GetUID() == "" || !isOwnedByHub(live, h) {
			continue
		}
		encoded, _, _ := unstructured.NestedString(live.Object, "spec", "caBundle")
		bundle, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("reading the CA bundle of APIService %q: %w", live.GetName(), err)
		}
		bundles = append(bundles, bundle)
	}
	return bundles, nil
}

// RemoveAPIServices deletes the APIServices of the hub.
func RemoveAPIServices(ctx context.Context, on *install.Target, h manifests.Hub) error {
	return on.Named.RemoveLabelled(ctx, h.OwnerLabels(), manifests.APIServices(h)...)
}

// getLiveObject returns the object as it is; one without a UID is not there.
func getLiveObject(ctx context.Context, on *install.Target, object render.Object) (*unstructured.Unstructured, error) {
	named, err := render.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(named.GroupVersionKind())
	err = on.Live.Get(ctx, client.ObjectKeyFromObject(named), live)
	if apierrors.IsNotFound(err) {
		live.SetName(named.GetName())
		return live, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading APIService %q: %w", named.GetName(), err)
	}
	return live, nil
}

func isOwnedByHub(live *unstructured.Unstructured, h manifests.Hub) bool {
	return labels.SelectorFromSet(h.OwnerLabels()).Matches(labels.Set(live.GetLabels()))
}

// describeForeignOwner says who serves an API that is not ours.
func describeForeignOwner(live *unstructured.Unstructured) string {
	if _, made := live.GetLabels()[automanaged]; made {
		return "a CustomResourceDefinition of this group"
	}
	namespace, _, _ := unstructured.NestedString(live.Object, "spec", "service", "namespace")
	name, found, _ := unstructured.NestedString(live.Object, "spec", "service", "name")
	if !found {
		return "the hub's API server itself"
	}
	return fmt.Sprintf("Service %q", namespace+"/"+name)
}

// apiServiceAvailable repeats what the API server says of the APIService.
func apiServiceAvailable(live *unstructured.Unstructured) (yes bool, trouble string) {
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == "Available" {
			reason, _ := condition["reason"].(string)
			message, _ := condition["message"].(string)
			return condition["status"] == "True", cmp.Or(reason, "Unknown") + ": " + cmp.Or(message, "the hub's API server does not say why")
		}
	}
	return false, "the hub's API server has not processed it yet"
}
