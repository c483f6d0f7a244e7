// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// certificatesMax limits how many certificates a bundle of CAs has.
const certificatesMax = 256

// CheckConfiguration returns what is wrong with a configuration, beyond what the definition of
// the kind tells.
func CheckConfiguration(configuration *configv1alpha1.ResourceInterpreterWebhookConfiguration) field.ErrorList {
	var wrong field.ErrorList
	for i := range configuration.Webhooks {
		client := &configuration.Webhooks[i].ClientConfig
		path := field.NewPath("webhooks").Index(i).Child("clientConfig")
		if len(client.CABundle) > 0 {
			if err := checkBundle(client.CABundle); err != nil {
				wrong = append(wrong, field.Invalid(path.Child("caBundle"), field.OmitValueType{}, fmt.Sprintf(
					"%v: set it to the PEM-encoded certificates of the CAs that issue the webhook's certificate, in base64", err)))
			}
		}
	}
	return wrong
}

// checkBundle reports whether a text is the certificates of CAs.
func checkBundle(bundle []byte) error {
	rest := bundle
	found := 0
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && found == 0:
			return errors.New("it contains no certificate")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("it contains a %s, which is not a certificate", block.Type)
		case found == certificatesMax:
			return fmt.Errorf("it contains more than %d certificates", certificatesMax)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d of it cannot be read: %w", found+1, err)
		}
		if err := certs.CheckPublicKey(cert.PublicKey); err != nil {
			return fmt.Errorf("certificate %d of it cannot be used: %w", found+1, err)
		}
		found++
	}
}
