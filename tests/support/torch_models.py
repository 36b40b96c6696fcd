"""Networks of models/ in PyTorch, with the names that torchvision gives their tensors."""

from torch import nn
from torch.nn import functional

VGG16 = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool", 512, 512, 512, "pool", 512, 512,
         512, "pool")


class Vgg16(nn.Module):
    """`spatial`: height and width before the classifier: 1 for images of 32 pixels, 7 for 224."""

    def __init__(self, spatial, hidden, classes):
        super().__init__()
        layers, channels = [], 3
        for width in VGG16:
            if width == "pool":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512 * spatial * spatial, hidden), nn.ReLU(), nn.Dropout(),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, classes))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class Resnet50(nn.Module):
    """With a 3x3 stem for images of 32 pixels, or with ImageNet's 7x7 and pooling."""

    def __init__(self, classes, imagenet=False):
        super().__init__()
        self.conv1 = (nn.Conv2d(3, 64, 7, 2, padding=3, bias=False) if imagenet else
                      nn.Conv2d(3, 64, 3, padding=1, bias=False))
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, padding=1) if imagenet else nn.Identity()
        inputs = 64
        for number, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
            stage = []
            for block in range(blocks):
                stage.append(Bottleneck(inputs, width, 2 if block == 0 and number > 1 else 1))
                inputs = 4 * width
            setattr(self, f"layer{number}", nn.Sequential(*stage))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.pool(functional.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))
