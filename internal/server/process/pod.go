// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serviceAccountNamespace is where a pod finds the namespace that it is in.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// OwnNamespace returns the namespace of the pod, or the given one if the process
// does not run in a pod.
func OwnNamespace(outside string) string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	content, err := os.ReadFile(serviceAccountNamespace)
	if namespace := strings.TrimSpace(string(content)); err == nil && namespace != "" {
		return namespace
	}
	return outside
}

// ImageToInstall returns the image of the container with this name in the pod of the
// process, or of its only container, unless the variable AGENT_IMAGE says which
// image to install.
func ImageToInstall(ctx context.Context, reader client.Reader, namespace, container string) (string, error) {
	if image := os.Getenv("AGENT_IMAGE"); image != "" {
		return image, nil
	}
	key := client.ObjectKey{Namespace: namespace, Name: os.Getenv("POD_NAME")}
	if key.Name == "" {
		return "", errors.New("set AGENT_IMAGE to the image to install, or POD_NAME to the pod whose image it is")
	}
	pod := &corev1.Pod{}
	if err := reader.Get(ctx, key, pod); err != nil {
		return "", fmt.Errorf("reading the pod %q to find its image (or set AGENT_IMAGE): %w", key, err)
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == container || len(pod.Spec.Containers) == 1 {
			return c.Image, nil
		}
	}
	return "", fmt.Errorf("the pod %q has no container %q; set AGENT_IMAGE", key, container)
}
