// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// podScheme begins the identity of a candidate that is a pod. Identities of
// others, such as "<host>_<random>", look much the same without it, and whoever
// is taken for a pod that is gone loses its Lease.
const podScheme = "pod"

// CandidatePod is the pod that a candidate runs in. The zero value is a process that
// runs in none.
type CandidatePod struct {
	Namespace, Name string
	UID             types.UID
}

// OwnPod returns the pod of this process, as its environment tells: POD_NAME,
// POD_NAMESPACE and POD_UID. It is the zero value if one of them is missing.
func OwnPod() CandidatePod {
	pod := CandidatePod{Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME"), UID: types.UID(os.Getenv("POD_UID"))}
	if pod.Namespace == "" || pod.Name == "" || pod.UID == "" {
		return CandidatePod{}
	}
	return pod
}

// candidateIdentity returns the name by which the pod is a candidate: the same one for
// all containers that run in it one after the other, so that the next one has
// the Lease of the one before.
func (p CandidatePod) candidateIdentity() string {
	return strings.Join([]string{podScheme, p.Name, string(p.UID)}, "/")
}

// parseIdentity returns the pod of an identity. It is false for candidates that
// are no pods.
func parseIdentity(identity string) (CandidatePod, bool) {
	parts := strings.Split(identity, "/")
	if len(parts) != 3 || parts[0] != podScheme || parts[1] == "" || parts[2] == "" {
		return CandidatePod{}, false
	}
	return CandidatePod{Name: parts[1], UID: types.UID(parts[2])}, true
}

// processIdentity returns the name of a candidate outside of a pod.
func processIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("finding the name of this replica: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// podHasEnded reports whether no container of the pod with this UID will run any more.
func podHasEnded(pod *corev1.Pod, uid types.UID) bool {
	return pod.UID != uid || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
